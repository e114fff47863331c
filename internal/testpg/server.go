package main

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
	"syscall"
	"time"
)

var errNotInstalled = errors.New("postgresql is not installed")

// server is a running PostgreSQL.
type server struct {
	url  string
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// programs returns the folder of the newest PostgreSQL's programs.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNotInstalled
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// start makes a cluster and starts it. On error nothing is left behind.
func start(ctx context.Context) (s *server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	cred, uid, gid, err := identity()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "parawork-pg-") // short: the socket's path is bounded
	if err != nil {
		return nil, err
	}
	s = &server{dir: dir}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	as := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		c.Dir = dir
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
		// A group of its own: an interrupt of the tests must not end it before them.
		c.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
		return c
	}
	data := filepath.Join(dir, "data")
	if out, err := as("initdb", "-D", data, "-U", "parawork", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for range 5 { // the port is free now; somebody else may be faster
		if err = s.serve(ctx, as, data); err == nil {
			return s, nil
		}
	}
	return nil, err
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

func (s *server) serve(ctx context.Context, as func(string, ...string) *exec.Cmd, data string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	// Tests only: nothing needs to outlive a power failure.
	s.cmd = as("postgres", "-D", data, "-k", s.dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "shared_buffers=64MB")
	var log bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	s.cmd.Cancel = func() error { return nil } // stop() ends it, after the tests
	if err := s.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.done = done
	go func() { s.cmd.Wait(); close(done) }()
	s.url = (&url.URL{Scheme: "postgres", User: url.User("parawork"), Host: "127.0.0.1:" + port, Path: "/postgres", RawQuery: "sslmode=disable"}).String()
	ready := func() bool { return as("pg_isready", "-q", "-h", "127.0.0.1", "-p", port).Run() == nil }
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

// stop ends the server and removes its folder.
func (s *server) stop() {
	if s.done != nil {
		s.cmd.Process.Signal(syscall.SIGINT) // fast shutdown: connections are cut
		select {
		case <-s.done:
		case <-time.After(20 * time.Second):
			syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
			<-s.done
		}
	}
	os.RemoveAll(s.dir)
}
