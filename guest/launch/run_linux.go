package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSpec bounds the Spec.
const maxSpec = 1 << 20

// oomScore makes the kernel, short of memory, kill processes in a sandbox before the server and the machine's other processes.
const oomScore = "500"

// Run executes the Spec at SpecFD and becomes its program. It returns only with an error.
func Run() error {
	s, err := read()
	if err != nil {
		return fmt.Errorf("reading what to launch: %w", err)
	}
	runtime.LockOSThread() // what is changed here belongs to this thread until it is the program
	if err := unix.CloseRange(ListenFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("closing descriptors: %w", err)
	}
	if len(s.Sources) > 0 {
		if err := show(s.Sources); err != nil {
			return err
		}
	}
	for i, b := range s.Data {
		if err := provide(i, b); err != nil {
			return fmt.Errorf("passing data: %w", err)
		}
	}
	if err := bound(s.Limits); err != nil {
		return err
	}
	if s.UID >= 0 {
		if err := become(s.UID, s.GID, s.Groups); err != nil {
			return fmt.Errorf("becoming the sandbox's user: %w", err)
		}
	}
	unix.Umask(0o022)
	for _, fd := range []uintptr{ListenFD, InfoFD} {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("passing descriptor %d: %w", fd, err)
		}
	}
	if err := syscall.Exec(s.Path, s.Args, s.Env); err != nil {
		return fmt.Errorf("starting %s: %w", s.Path, err)
	}
	return nil
}

func read() (s Spec, err error) {
	f := os.NewFile(SpecFD, "spec")
	if f == nil {
		return s, errors.New("only the server starts this program")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSpec+1))
	if err != nil {
		return s, err
	}
	if len(b) > maxSpec {
		return s, errors.New("it is too long")
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, err
	}
	if s.Path == "" || len(s.Args) == 0 {
		return s, errors.New("it names no program")
	}
	if s.UID >= 0 && (s.UID == 0 || s.GID <= 0) {
		return s, errors.New("it would run as root")
	}
	return s, nil
}

// show binds each source below stage. The server may walk through folders that the sandbox's user may not; it binds the last
// element of a source itself, never what a link leads to.
func show(sources []string) error {
	fds := make([]int, len(sources))
	for i, path := range sources { // open all before anything covers a part of the tree
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %s to show it in the sandbox: %w", path, err)
		}
		fds[i] = fd
	}
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	for i, fd := range fds {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("examining %s: %w", sources[i], err)
		}
		target := Staged(i)
		var err error
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = unix.Mkdir(target, 0o755)
		case unix.S_IFREG, unix.S_IFSOCK:
			err = os.WriteFile(target, nil, 0o644)
		default:
			err = errors.New("it is neither a file nor a folder")
		}
		if err == nil {
			err = unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), target, "", unix.MS_BIND|unix.MS_REC, "")
		}
		if err != nil {
			return fmt.Errorf("showing %s in the sandbox: %w", sources[i], err)
		}
		_ = unix.Close(fd)
	}
	return nil
}

// provide puts data into memory that the program reads from a descriptor.
func provide(i int, b []byte) error {
	fd, err := unix.MemfdCreate("launch", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return err
	}
	if err := unix.Dup3(fd, DataFD(i), 0); err != nil {
		return err
	}
	return unix.Close(fd)
}

// bound sets the limits that apply to each process.
func bound(l Limits) error {
	limits := []struct {
		what string
		res  int
		max  uint64
		set  bool
	}{
		{"core files", unix.RLIMIT_CORE, 0, true},
		{"open files", unix.RLIMIT_NOFILE, l.OpenFiles, l.OpenFiles > 0},
		{"the size of files", unix.RLIMIT_FSIZE, l.FileSize, l.FileSize > 0},
		{"processes", unix.RLIMIT_NPROC, l.Processes, l.Processes > 0},
	}
	for _, b := range limits {
		if !b.set {
			continue
		}
		var was syscall.Rlimit
		if err := syscall.Getrlimit(b.res, &was); err != nil {
			return fmt.Errorf("reading the limit of %s: %w", b.what, err)
		}
		top := min(b.max, was.Max)
		if err := syscall.Setrlimit(b.res, &syscall.Rlimit{Cur: top, Max: top}); err != nil {
			return fmt.Errorf("limiting %s: %w", b.what, err)
		}
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0) // best effort: some containers do not allow raising it
	return nil
}

// become gives up the server's user irrevocably.
func become(uid, gid int, groups []int) error {
	if slices.ContainsFunc(groups, func(g int) bool { return g <= 0 }) {
		return errors.New("it would be in the group of root")
	}
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return err
	}
	return syscall.Setresuid(uid, uid, uid)
}
