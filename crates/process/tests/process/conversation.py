# Runs a program in a new terminal and conducts a dialogue with it. Arguments: the number N, then N texts
# (alternately an output to wait for and an input to type), then the program. Prints all output.
import os, pty, select, signal, sys, time

count = int(sys.argv[1])
steps = sys.argv[2:2 + count]
program = sys.argv[2 + count:]
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(program[0], program)

transcript, seen, deadline = b'', 0, time.time() + 20


def listen():
    global transcript
    if time.time() > deadline:
        sys.stdout.buffer.write(transcript)
        print('\ntimed out waiting for the output:', steps[:1])
        os.kill(child, signal.SIGKILL)
        sys.exit(1)
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            return False
        transcript += chunk
        return bool(chunk)
    return True


while steps:
    expected, typed = steps[0].encode(), steps[1].encode()
    found = transcript.find(expected, seen)
    if found >= 0:
        seen = found + len(expected)
        # Gives the program time to start reading.
        time.sleep(0.2)
        os.write(terminal, typed)
        steps = steps[2:]
    elif not listen():
        sys.stdout.buffer.write(transcript)
        print('\nended without the output:', steps[0])
        sys.exit(1)
while listen():
    pass
os.waitpid(child, 0)
sys.stdout.buffer.write(transcript)
