# Tries every known way to change files outside the sandbox, and prints the attempts that succeeded.
# Environment: INSIDE, a writable folder, and OUTSIDE, a read-only one with `file`, `folder` and `fifo`.
import ctypes, os, stat, sys

I, O = os.environ['INSIDE'], os.environ['OUTSIDE']
FILE = O + '/file'
libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, action):
    try:
        action()
        print('succeeded', name)
    except OSError:
        pass


def append(path):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b'!')
    os.close(fd)


def call(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), 'refused')


def made(name):
    with open(I + '/' + name, 'w') as file:
        file.write('made inside')
    return I + '/' + name


def linked():
    os.link(FILE, I + '/hard')
    append(I + '/hard')


def through_symlink():
    os.symlink(FILE, I + '/soft')
    append(I + '/soft')


def through_folder_symlink():
    os.symlink(O, I + '/softfolder')
    open(I + '/softfolder/new', 'w').close()


def folder_handle():
    fd = os.open(O, os.O_PATH | os.O_DIRECTORY)
    append('/proc/self/fd/%d/file' % fd)


def file_handle():
    fd = os.open(FILE, os.O_RDONLY)
    append('/proc/self/fd/%d' % fd)


def fifo():
    fd = os.open(O + '/fifo', os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b'!')


def bind():
    os.makedirs(I + '/bound', exist_ok=True)
    call(libc.mount, O.encode(), (I + '/bound').encode(), None, 4096, None)
    append(I + '/bound/file')


def remount():
    call(libc.mount, None, b'/', None, 32 | 4096, None)
    append(FILE)


def remount_all():
    for line in open('/proc/self/mountinfo'):
        at = line.split()[4].encode()
        if O.encode().startswith(at):
            call(libc.mount, None, at, None, 32 | 4096, None)
    append(FILE)


def unmount():
    call(libc.umount2, I.encode(), 2)


def namespaces():
    call(libc.unshare, 0x10000000 | 0x00020000)
    call(libc.mount, None, b'/', None, 32 | 4096, None)
    append(FILE)


def disks():
    for folder in ('/dev', '/dev/mapper', '/dev/block'):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            path = folder + '/' + name
            if stat.S_ISBLK(os.stat(path).st_mode):
                os.close(os.open(path, os.O_WRONLY))
                return
    raise OSError


def own_disk():
    os.mknod(I + '/disk', 0o600 | stat.S_IFBLK, os.stat(O).st_dev)
    os.close(os.open(I + '/disk', os.O_WRONLY))


attempt('append', lambda: append(FILE))
attempt('truncate', lambda: os.truncate(FILE, 8))
attempt('open-truncate', lambda: os.close(os.open(FILE, os.O_WRONLY | os.O_TRUNC)))
attempt('create', lambda: open(O + '/new', 'w').close())
attempt('mkdir', lambda: os.mkdir(O + '/newfolder'))
attempt('mkfifo', lambda: os.mkfifo(O + '/newfifo'))
attempt('make-symlink', lambda: os.symlink('file', O + '/newlink'))
attempt('link-out', lambda: os.link(made('a'), O + '/newhard'))
attempt('rename-into', lambda: os.rename(made('b'), O + '/renamed'))
attempt('rename-over', lambda: os.replace(made('c'), FILE))
attempt('link', linked)
attempt('symlink', through_symlink)
attempt('symlinked-folder', through_folder_symlink)
attempt('dotdot', lambda: append(I + '/../outside/file'))
attempt('proc-root', lambda: append('/proc/self/root' + FILE))
attempt('proc-cwd', lambda: append('/proc/self/cwd/../outside/file'))
attempt('proc-parent-root', lambda: append('/proc/%d/root%s' % (os.getppid(), FILE)))
attempt('proc-first-root', lambda: append('/proc/1/root' + FILE))
attempt('proc-first-cwd', lambda: append('/proc/1/cwd' + FILE))
attempt('folder-handle', folder_handle)
attempt('file-handle', file_handle)
attempt('fifo', fifo)
attempt('chmod', lambda: os.chmod(FILE, 0o777))
attempt('chown', lambda: os.chown(FILE, os.getuid(), os.getgid()))
attempt('utime', lambda: os.utime(FILE, (1, 1)))
attempt('xattr', lambda: os.setxattr(FILE, 'user.mark', b'1'))
if 'UNCONFINED' not in os.environ:
    attempt('bind', bind)
    attempt('remount', remount)
    attempt('remount-all', remount_all)
    attempt('unmount', unmount)
    attempt('disks', disks)
    attempt('own-disk', own_disk)
    if os.fork() == 0:
        attempt('namespaces', namespaces)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
attempt('rename-from', lambda: os.rename(FILE, I + '/stolen'))
attempt('rmdir', lambda: os.rmdir(O + '/folder'))
attempt('unlink', lambda: os.unlink(O + '/fifo'))
print('all tried')
