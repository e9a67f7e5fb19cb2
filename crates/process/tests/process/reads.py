# Tries every known way to read secrets outside the sandbox, and prints the attempts that succeeded.
# Environment: INSIDE, the working folder; SECRETS, paths of files that contain PLANTED; SYSTEM_SECRETS,
# paths of secret files of the system.
import ctypes, glob, mmap, os, shutil, signal, sqlite3, stat, subprocess, sys

I = os.environ['INSIDE']
TOKEN = b'PLANTED'
SECRETS = [(path, TOKEN) for path in os.environ['SECRETS'].split(':')]
SECRETS += [(path, b'\nroot:') for path in os.environ.get('SYSTEM_SECRETS', '').split(':') if path]
libc = ctypes.CDLL(None, use_errno=True)
count = 0


def fresh(name):
    global count
    count += 1
    return '%s/%s-%d' % (I, name, count)


def content(path):
    # Does not wait for pipes of other processes.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(file, 1 << 20)
    finally:
        os.close(file)


def ran(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, cwd=I, timeout=30)
    return done.stdout


def anywhere(pattern):
    found = b''
    for path in glob.glob(pattern):
        try:
            found += content(path)
        except OSError:
            pass
    return found


def wildcard(path):
    folder, name = os.path.split(path)
    return ran('sh', '-c', 'cat %s/%s* %s/.%s*' % (folder, name[:2], folder, name[:2]))


def deep_wildcard(path):
    parts = path.split('/')
    return ran('sh', '-c', 'cat ' + '/'.join(part and part[:1] + '*' for part in parts))


def linked(path):
    link = fresh('soft')
    os.symlink(path, link)
    return content(link)


def linked_folder(path):
    link = fresh('softfolder')
    os.symlink(os.path.dirname(path), link)
    return content(link + '/' + os.path.basename(path))


def linked_root(path):
    link = fresh('softroot')
    os.symlink('/', link)
    return content(link + path)


def hard(path):
    link = fresh('hard')
    os.link(path, link)
    return content(link)


def moved(path):
    place = fresh('moved')
    os.rename(path, place)
    return content(place)


def dots(path):
    return content(I + '/' + '../' * 20 + path[1:])


def handle(path):
    fd = os.open(path, os.O_PATH)
    return content('/proc/self/fd/%d' % fd)


def folder_handle(path):
    fd = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    return os.read(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=fd), 4096)


def mapped(path):
    with open(path, 'rb') as file:
        return bytes(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


def sent(path):
    source = os.open(path, os.O_RDONLY)
    place = fresh('sent')
    target = os.open(place, os.O_WRONLY | os.O_CREAT)
    os.sendfile(target, source, 0, 4096)
    return content(place)


def listed(path):
    return TOKEN if os.path.basename(path) in os.listdir(os.path.dirname(path)) and path not in SYSTEM else b''


SYSTEM = [path for path, wanted in SECRETS if wanted != TOKEN]


def bound(path):
    place = fresh('bound')
    os.mkdir(place)
    if libc.mount(os.path.dirname(path).encode(), place.encode(), None, 4096, None) != 0:
        raise OSError
    return content(place + '/' + os.path.basename(path))


def in_user_namespace(path):
    return ran('unshare', '-Urm', 'sh', '-c', 'umount -l "$1" "$(dirname "$1")"; cat "$1"', 'sh', path)


def unmounted(path):
    for line in content('/proc/self/mountinfo').splitlines():
        libc.umount2(line.split()[4], 2)
    return content(path)


def by_number(path):
    # Opens the file by its handle instead of its path.
    buffer = ctypes.create_string_buffer(136)
    ctypes.c_uint.from_buffer(buffer).value = 128
    number = ctypes.c_int()
    if libc.name_to_handle_at(-100, path.encode(), buffer, ctypes.byref(number), 0) != 0:
        raise OSError
    fd = libc.open_by_handle_at(os.open(I, os.O_RDONLY), buffer, 0)
    if fd < 0:
        raise OSError
    return os.read(fd, 4096)


def disk(path):
    place = fresh('disk')
    os.mknod(place, 0o600 | stat.S_IFBLK, os.stat(I).st_dev)
    return TOKEN if os.open(place, os.O_RDONLY) else b''


def memory(_):
    os.close(os.open('/dev/mem', os.O_RDONLY))
    return TOKEN


def dumped(_):
    # A memory dump of a process that could read the secret would contain it.
    ran('sh', '-c', 'ulimit -c unlimited; kill -QUIT 1; kill -ABRT $$')
    return anywhere(I + '/core*') + anywhere('/var/lib/systemd/coredump/*') + anywhere('/tmp/core*')


def traced(_):
    for number in (1, os.getppid()):
        if libc.ptrace(16, number, None, None) == 0:
            return TOKEN
    return b''


def database(path):
    opened = sqlite3.connect('file:%s?immutable=1' % path, uri=True)
    return str(opened.execute('select * from sqlite_master').fetchall()).encode() + TOKEN


def stream(path):
    return ran('bash', '-c', 'exec 3<"$1"; cat <&3', 'bash', path)


def home_of_user(path):
    return ran('bash', '-c', 'cat ~root/secret ~nobody/secret ~/secret "$HOME"/.ssh/*')


def inherited(_):
    found = b''
    for number in os.listdir('/proc/self/fd'):
        if int(number) > 2:
            try:
                found += os.pread(int(number), 1 << 20, 0)
            except OSError:
                pass
            # An open folder gives access to all files in it.
            found += anywhere('/proc/self/fd/%s/*' % number) + anywhere('/proc/self/fd/%s/../*' % number)
    return found


def from_script(path):
    script = fresh('script')
    with open(script, 'w') as file:
        file.write('#!/bin/sh\nwhile IFS= read -r line; do echo "$line"; done < "$1"\n')
    os.chmod(script, 0o755)
    return ran(script, path)


def waiting_link(path):
    # A link whose target is swapped before it is opened.
    link = fresh('swap')
    for target in (I, path):
        os.symlink(target, link + '.new')
        os.rename(link + '.new', link)
    return content(link)


WAYS = {
    'open': content,
    'wildcard': wildcard,
    'deep-wildcard': deep_wildcard,
    'proc-self-root': lambda path: content('/proc/self/root' + path),
    'proc-first-root': lambda path: content('/proc/1/root' + path),
    'proc-parent-root': lambda path: content('/proc/%d/root%s' % (os.getppid(), path)),
    'proc-any-root': lambda path: anywhere('/proc/[0-9]*/root' + path),
    'proc-any-task-root': lambda path: anywhere('/proc/[0-9]*/task/*/root' + path),
    'proc-any-cwd': lambda path: anywhere('/proc/[0-9]*/cwd/' + '../' * 12 + path[1:]),
    'proc-any-handle': lambda path: anywhere('/proc/[0-9]*/fd/3*') + anywhere('/proc/[0-9]*/fd/4*'),
    'proc-environment': lambda path: anywhere('/proc/1/environ') + anywhere('/proc/%d/environ' % os.getppid()),
    'own-environment': lambda path: repr(dict(os.environ)).encode(),
    'inherited-handle': inherited,
    'script': from_script,
    'swapped-link': waiting_link,
    'python': lambda path: ran('python3', '-c', 'import sys; print(open(sys.argv[1]).read())', path),
    'proc-mapped-files': lambda path: anywhere('/proc/1/map_files/*'),
    'link': linked,
    'linked-folder': linked_folder,
    'linked-root': linked_root,
    'hard-link': hard,
    'rename': moved,
    'dots': dots,
    'handle': handle,
    'folder-handle': folder_handle,
    'mapped': mapped,
    'sendfile': sent,
    'listing': listed,
    'bind-mount': bound,
    'user-namespace': in_user_namespace,
    'unmount': unmounted,
    'by-number': by_number,
    'disk': disk,
    'memory': memory,
    'memory-dump': dumped,
    'ptrace': traced,
    'sqlite': database,
    'shell-stream': stream,
    'home-of-user': home_of_user,
    'cat': lambda path: ran('cat', path),
    'dd': lambda path: ran('dd', 'if=' + path),
    'tar': lambda path: ran('tar', '-cf', '-', path),
    'awk': lambda path: ran('awk', '{print}', path),
    'find': lambda path: ran('find', os.path.dirname(path), '-path', path, '-exec', 'cat', '{}', ';'),
    'git': lambda path: ran('git', 'diff', '--no-index', '/dev/null', path),
    'perl': lambda path: ran('perl', '-e', 'open F, shift; print <F>', path),
    'node': lambda path: ran('node', '-e', 'console.log(require("fs").readFileSync(process.argv[1], "utf8"))', path),
    'make': lambda path: ran('make', '-f', path, '-p'),
    'loader': lambda path: ran('env', 'LD_PRELOAD=' + path, 'true') + ran('ld.so', path),
    'sudo': lambda path: ran('sudo', '-n', 'cat', path) + ran('su', '-c', 'cat ' + path),
}

if 'UNCONFINED' in os.environ:
    # These would change or disturb mounts, devices and processes of the machine.
    for name in ('proc-any-handle', 'proc-mapped-files', 'unmount', 'bind-mount', 'user-namespace', 'rename', 'disk', 'memory', 'memory-dump', 'ptrace', 'sudo'):
        del WAYS[name]

for name, way in WAYS.items():
    for path, wanted in SECRETS:
        try:
            found = way(path)
        except (OSError, sqlite3.Error, ValueError, subprocess.SubprocessError):
            continue
        # A line of /etc/shadow starts with the user name, as in the public /etc/passwd, where an x follows.
        if wanted in b'\n' + found.replace(b'root:x:', b''):
            print('succeeded', name, path)
print('all tried', len(WAYS))
