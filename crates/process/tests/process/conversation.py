# Runs a program behind a new terminal and talks with it: N texts, in turn one to wait for and one
# to type, then the program. Prints all that was said.
import os, pty, select, signal, sys, time

count = int(sys.argv[1])
steps = sys.argv[2:2 + count]
program = sys.argv[2 + count:]
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(program[0], program)

said, seen, deadline = b'', 0, time.time() + 20


def listen():
    global said
    if time.time() > deadline:
        sys.stdout.buffer.write(said)
        print('\nnot said in time:', steps[:1])
        os.kill(child, signal.SIGKILL)
        sys.exit(1)
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            return False
        said += chunk
        return bool(chunk)
    return True


while steps:
    wanted, typed = steps[0].encode(), steps[1].encode()
    found = said.find(wanted, seen)
    if found >= 0:
        seen = found + len(wanted)
        # A moment for the program to reach what it does next.
        time.sleep(0.2)
        os.write(terminal, typed)
        steps = steps[2:]
    elif not listen():
        sys.stdout.buffer.write(said)
        print('\nended before it said:', steps[0])
        sys.exit(1)
while listen():
    pass
os.waitpid(child, 0)
sys.stdout.buffer.write(said)
