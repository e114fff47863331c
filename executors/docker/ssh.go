//go:build linux || darwin

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// overSSH reaches an engine as Docker's own command line does: each connection is an ssh that runs `docker system dial-stdio` there.
func overSSH(host string) (Dial, error) {
	u, err := url.Parse(host)
	if err == nil && (u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-")) {
		err = errors.New("it names no host")
	}
	if err == nil && u.Path != "" && u.Path != "/" {
		err = errors.New("it has a path")
	}
	if err != nil {
		return nil, fmt.Errorf("the address %q of the Docker engine: %w", host, err)
	}
	// Nobody can be asked for a password, and a dead connection is noticed.
	args := []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15", "-T"}
	if name := u.User.Username(); name != "" {
		args = append(args, "-l", name)
	}
	if port := u.Port(); port != "" {
		args = append(args, "-p", port)
	}
	args = append(args, "--", u.Hostname(), "docker", "system", "dial-stdio")
	return func(context.Context) (net.Conn, error) { return startSSH(args) }, nil
}

// sshConn is the standard input and output of an ssh process.
type sshConn struct {
	cmd  *exec.Cmd
	in   *os.File
	out  *os.File
	once sync.Once
	said *FirstWords
	done chan struct{} // closed when ssh has ended and was waited for
}

func startSSH(args []string) (net.Conn, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_ = theirIn.Close()
		_ = in.Close()
		return nil, err
	}
	c := &sshConn{cmd: exec.Command("ssh", args...), in: in, out: out, said: &FirstWords{}, done: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirIn, theirOut, c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is meant for this program only
	c.cmd.WaitDelay = time.Second
	err = c.cmd.Start()
	_ = theirIn.Close()
	_ = theirOut.Close()
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, fmt.Errorf("starting ssh: %w", err)
	}
	go func() { // ends with ssh
		defer close(c.done)
		_ = c.cmd.Wait() // its standard error says why
	}()
	return c, nil
}

func (c *sshConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if errors.Is(err, io.EOF) {
		err = c.why(err)
	}
	return n, err
}

func (c *sshConn) Write(p []byte) (int, error) {
	n, err := c.in.Write(p)
	if errors.Is(err, syscall.EPIPE) { // it ended before it read the request
		err = c.why(err)
	}
	return n, err
}

// why returns the last words of an ssh that ended, err when it printed nothing.
func (c *sshConn) why(err error) error {
	select {
	case <-c.done: // all of its output is there
	case <-time.After(2 * time.Second):
	}
	if text := plain(c.said.String(), 200); text != "" {
		return fmt.Errorf("ssh: %s", text)
	}
	return err
}

// CloseWrite closes the sending direction.
func (c *sshConn) CloseWrite() error { return c.in.Close() }

func (c *sshConn) Close() error {
	c.once.Do(func() {
		_ = c.in.Close()
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.out.Close()
	})
	return nil
}

func (c *sshConn) LocalAddr() net.Addr  { return &net.UnixAddr{Name: "ssh", Net: "unix"} }
func (c *sshConn) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "ssh", Net: "unix"} }
func (c *sshConn) SetDeadline(t time.Time) error {
	return errors.Join(c.in.SetWriteDeadline(t), c.out.SetReadDeadline(t))
}
func (c *sshConn) SetReadDeadline(t time.Time) error  { return c.out.SetReadDeadline(t) }
func (c *sshConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }

// FirstWords stores the beginning of what is written to it: what a program says before it ends. Safe for concurrent use.
type FirstWords struct {
	mu sync.Mutex
	b  []byte
}

func (w *FirstWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p[:min(len(p), 500-len(w.b))]...)
	return len(p), nil
}

func (w *FirstWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}
