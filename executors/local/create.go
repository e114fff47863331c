//go:build linux

package local

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Files of a sandbox's folder beside the guest's own.
const (
	tokenName  = "token"      // the guest's secret, readable by the owner only
	recordName = "guest.json" // who the guest process is
	outputName = "guest.log"  // what the guest itself prints
)

// allowed are the names of the server's environment that guests, and through them agents, are given.
var allowed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}

// guestEnv picks the allow-listed entries of the server's environment.
func guestEnv(environ []string, id string) []string {
	var out []string
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && (slices.Contains(allowed, name) || strings.HasPrefix(name, "LC_")) {
			out = append(out, entry)
		}
	}
	return append(out, marker+"="+id)
}

// Create starts a guest for s, or finds the one that was started for s.ID before. On error nothing is left behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := checkID(s.ID); err != nil {
		return nil, err
	}
	if !e.cfg.Enabled {
		return nil, fault.New(fault.Unavailable, "executor_unavailable",
			"This server does not allow local places. Set sandboxing.local.enabled to true in config.json.")
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	defer e.lock(s.ID)()
	found, err := e.find(ctx, executors.Handle{Kind: executors.Local, ID: s.ID})
	if err == nil {
		return found, nil
	}
	if !errors.Is(err, executors.ErrGone) {
		return nil, err
	}
	if err := e.destroy(ctx, s.ID); err != nil { // rests of an earlier try
		return nil, err
	}
	sb, err := e.start(ctx, s)
	if err != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if derr := e.destroy(cctx, s.ID); derr != nil {
			err = errors.Join(err, derr)
		}
		return nil, fmt.Errorf("starting the guest of sandbox %s: %w", s.ID, err)
	}
	return sb, nil
}

// start makes the folder and starts the guest in it. The caller cleans up after an error.
func (e *Executor) start(ctx context.Context, s executors.Spec) (*sandbox, error) {
	dir := e.dir(s.ID)
	if err := os.MkdirAll(e.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	token, err := e.makeToken(dir)
	if err != nil {
		return nil, err
	}
	listener, err := listenUnix(dir)
	if err != nil {
		return nil, err
	}
	output, err := os.OpenFile(filepath.Join(dir, outputName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	defer output.Close()
	who, ended, err := e.launch(s, dir, listener, output)
	if err != nil {
		return nil, err
	}
	sb := &sandbox{e: e, id: s.ID, dir: dir, token: token, who: who}
	if err := e.ready(ctx, sb, ended); err != nil {
		return nil, err
	}
	return sb, nil
}

func (e *Executor) makeToken(dir string) (string, error) {
	var raw [32]byte
	if _, err := io.ReadFull(e.cfg.Rand, raw[:]); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	token := hex.EncodeToString(raw[:])
	return token, os.WriteFile(tokenFile(dir), []byte(token), 0o600)
}

func tokenFile(dir string) string { return filepath.Join(dir, tokenName) }

func readToken(dir string) (string, error) {
	b, err := readSmall(tokenFile(dir))
	return strings.TrimSpace(string(b)), err
}

// readSmall reads a small regular file of a folder an agent may write to: no link, no FIFO, no endless file.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(path))
	}
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// launch starts the guest process in a session of its own, so that nothing that ends the server ends it. ended is closed
// when the process has ended and was reaped.
func (e *Executor) launch(s executors.Spec, dir string, listener, output *os.File) (identity, <-chan struct{}, error) {
	cmd := exec.Command(e.cfg.GuestPath, guestArgs(s, dir)...)
	cmd.Dir = dir
	cmd.Env = append(guestEnv(e.cfg.Env(), s.ID), executors.GuestEnv(s.Env)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{listener} // fd 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := cmd.Start()
	_ = listener.Close() // only the guest has it now: when it ends, dialing fails at once
	if err != nil {
		return identity{}, nil, err
	}
	who, err := identify(cmd.Process.Pid)
	ended := make(chan struct{})
	go func() { // ends with the guest process; nobody could wait for it, since the guest outlives the server
		defer close(ended)
		reap(cmd)
	}()
	if err == nil {
		err = writeRecord(dir, who)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return identity{}, nil, err
	}
	return who, ended, nil
}

// reap waits for a child without holding a thread: the kernel wakes the poller when the process ends.
func reap(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == nil {
		f := os.NewFile(uintptr(fd), "pidfd")
		defer f.Close()
		rc, cerr := f.SyscallConn()
		err = cerr
		if err == nil {
			err = rc.Read(func(uintptr) bool {
				got, werr := unix.Wait4(pid, nil, unix.WNOHANG, nil)
				return got == pid || errors.Is(werr, unix.ECHILD)
			})
		}
	}
	if err != nil { // an old kernel
		_, _ = cmd.Process.Wait() // how it ended is told by its record and its log
		return
	}
	_ = cmd.Process.Release()
}

// ready waits until the guest answers its first hello as itself.
func (e *Executor) ready(ctx context.Context, sb *sandbox, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.ReadyIn, errors.New("the guest did not answer in time"))
	defer cancel()
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.token, SandboxID: sb.id, Now: e.cfg.Now})
	defer c.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		h, err := c.Hello(ctx)
		if err == nil {
			return executors.CheckHello(h, sb.id)
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("the guest ended at once: %s", tail(filepath.Join(sb.dir, outputName)))
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// tail is the end of what the guest printed, for a person.
func tail(path string) string {
	b, err := readSmall(path)
	if err != nil || len(b) == 0 {
		return "it printed nothing"
	}
	if len(b) > 500 {
		b = b[len(b)-500:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
}

// writeRecord keeps who the guest process is, atomically.
func writeRecord(dir string, who identity) error {
	b, err := json.Marshal(who)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordName)
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
