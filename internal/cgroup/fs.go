package cgroup

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// fsys is the kernel's interface: its files and its processes.
type fsys interface {
	Read(path string) (string, error)
	Write(path, text string) error // into an existing file, in one call
	Mkdir(path string) error
	Rmdir(path string) error
	Dirs(path string) ([]string, error)
	Exists(path string) bool
	Writable(path string) bool
	Root() bool
	Kill(pid int) error
	Sleep(d time.Duration)
}

// system is this machine.
type system struct{}

func (system) Read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 8<<20))
	return string(b), err
}

func (system) Write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (system) Mkdir(path string) error { return os.Mkdir(path, 0o755) }
func (system) Rmdir(path string) error { return syscall.Rmdir(path) }

func (system) Dirs(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

func (system) Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (system) Writable(path string) bool { return syscall.Access(path, 2) == nil }
func (system) Root() bool                { return os.Geteuid() == 0 }
func (system) Kill(pid int) error        { return syscall.Kill(pid, syscall.SIGKILL) }
func (system) Sleep(d time.Duration)     { time.Sleep(d) }

// read returns a file's text, "" when it cannot be read.
func read(fs fsys, path string) string {
	text, err := fs.Read(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

func isBusy(err error) bool { return errors.Is(err, syscall.EBUSY) }
