// Package postgres starts PostgreSQL servers for tests: Debian's programs, a free loopback port, a data folder of their own.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNotInstalled says that this machine has no PostgreSQL.
var ErrNotInstalled = errors.New("postgresql is not installed")

// Server is a PostgreSQL with a data folder, running or stopped.
type Server struct {
	URL string // stays the same over Stop and Again

	bin, dir, port string
	cred           *syscall.Credential
	cmd            *exec.Cmd
	done           chan struct{}
}

// programs returns the folder of the newest PostgreSQL's programs.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrNotInstalled
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// Start makes a cluster and starts it. On error nothing is left behind; ErrNotInstalled where there is no PostgreSQL.
func Start(ctx context.Context) (s *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	cred, uid, gid, err := identity()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "parawork-pg-") // short: the socket's path is bounded
	if err != nil {
		return nil, err
	}
	s = &Server{bin: bin, dir: dir, cred: cred}
	defer func() {
		if err != nil {
			s.Remove()
		}
	}()
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	if out, err := s.as(ctx, "initdb", "-D", s.data(), "-U", "parawork", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for range 5 { // the port is free now; somebody else may be faster
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		s.URL = (&url.URL{Scheme: "postgres", User: url.User("parawork"), Host: s.Address(), Path: "/postgres", RawQuery: "sslmode=disable"}).String()
		if err = s.Again(ctx); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Address is where the server listens, or will again.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", s.port) }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// as is one of PostgreSQL's programs, run as whom it accepts.
func (s *Server) as(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	// A group of its own: an interrupt of the tests must not end it before them.
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	return c
}

// identity returns whom to run as: PostgreSQL refuses root.
func identity() (*syscall.Credential, int, int, error) {
	if os.Getuid() != 0 {
		return nil, os.Getuid(), os.Getgid(), nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, 0, 0, fmt.Errorf("PostgreSQL refuses root, and there is no user postgres to run it as: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, uid, gid, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// Again starts a stopped server on its data and port, and waits until it answers.
func (s *Server) Again(ctx context.Context) error {
	// Tests only: nothing needs to outlive a power failure.
	s.cmd = s.as(ctx, "postgres", "-D", s.data(), "-k", s.dir, "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "shared_buffers=64MB")
	var log bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	s.cmd.Cancel = func() error { return nil } // Stop ends it, after the tests
	if err := s.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.done = done
	go func(cmd *exec.Cmd) { cmd.Wait(); close(done) }(s.cmd)
	ready := func() bool { return s.as(ctx, "pg_isready", "-q", "-h", "127.0.0.1", "-p", s.port).Run() == nil }
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		select {
		case <-done:
			return fmt.Errorf("postgres ended at once:\n%s", log.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
			if ready() {
				return nil
			}
		}
	}
	return errors.New("postgres did not answer within a minute")
}

// Stop ends the server and keeps its data. Connections are cut.
func (s *Server) Stop() {
	if s.done == nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.done
	}
	s.done = nil
}

// Remove stops the server and removes its data.
func (s *Server) Remove() {
	s.Stop()
	os.RemoveAll(s.dir)
}

// Freeze stops every process of the server as it stands: connections are accepted by the kernel, and nobody answers. The returned func lets
// them go on.
func (s *Server) Freeze() (resume func(), err error) {
	pids := []int{s.cmd.Process.Pid}
	resume = func() {
		for _, pid := range slices.Backward(pids) {
			_ = syscall.Kill(pid, syscall.SIGCONT) // one that has ended is no trouble
		}
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		return nil, err
	}
	// From now on it makes no more processes. Each leads a session of its own.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pids[0], pids[0]))
	if err != nil {
		resume()
		return nil, err
	}
	for field := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(field)
		if err == nil && syscall.Kill(pid, syscall.SIGSTOP) == nil {
			pids = append(pids, pid)
		}
	}
	return resume, nil
}
