package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
)

const (
	connectIn = 15 * time.Second // one connection, with its login
	pingEvery = 15 * time.Second
	// most is how many programs one SSH connection carries: OpenSSH's MaxSessions is 10.
	most = 8
	// dialStdio connects its standard input and output to the engine's socket, as Docker's own command line does it over SSH.
	dialStdio = "docker system dial-stdio"
)

// errPinned says that a host has another key than the one that was pinned, or that none is.
type errPinned struct{ got, want string }

func (e errPinned) Error() string { return "its host key is " + e.got }

// link is the way to one host: SSH connections, made when they are needed. Safe for concurrent use. Each connection has a goroutine that
// pings it, which ends with the connection.
type link struct {
	host Host
	key  func(context.Context) string // the private key; "" = the SSH agent of this server

	mu     sync.Mutex
	conns  []*conn
	closed bool
}

// conn is one SSH connection.
type conn struct {
	client *ssh.Client
	in     int // programs on it; link.mu guards it
}

// run starts a program on the host and returns its standard input and output.
func (l *link) run(ctx context.Context, command string) (*stream, error) {
	c, err := l.take(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{link: l, conn: c, done: make(chan struct{})}
	if err := s.start(ctx, command); err != nil {
		l.give(c)
		return nil, l.inWords(err)
	}
	return s, nil
}

// dial connects to the host's engine.
func (l *link) dial(ctx context.Context) (net.Conn, error) { return l.run(ctx, dialStdio) }

// reach logs in, unless that was done.
func (l *link) reach(ctx context.Context) error {
	c, err := l.take(ctx)
	if err == nil {
		l.give(c)
	}
	return err
}

// take returns a connection with room for another program.
func (l *link) take(ctx context.Context) (*conn, error) {
	l.mu.Lock()
	for _, c := range l.conns {
		if c.in < most {
			c.in++
			l.mu.Unlock()
			return c, nil
		}
	}
	l.mu.Unlock()
	client, err := l.connect(ctx)
	if err != nil {
		return nil, l.inWords(err)
	}
	c := &conn{client: client, in: 1}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	go l.watch(c)
	return c, nil
}

// give gives back the room of a program that has ended. A connection that carries nothing is kept for the next one, until Close.
func (l *link) give(c *conn) {
	l.mu.Lock()
	c.in--
	idle := l.closed && c.in == 0
	l.mu.Unlock()
	if idle {
		_ = c.client.Close() // nothing is on it
	}
}

// watch pings a connection until it ends, and forgets it then: a firewall may have dropped it without a word.
func (l *link) watch(c *conn) {
	ended := make(chan struct{})
	go func() { // ends with the connection
		_ = c.client.Wait()
		close(ended)
	}()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for alive := true; alive; {
		select {
		case <-ended:
			alive = false
		case <-tick.C:
			alive = ping(c.client, ended)
		}
	}
	_ = c.client.Close()
	<-ended
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range l.conns {
		if o == c {
			l.conns = append(l.conns[:i:i], l.conns[i+1:]...)
			return
		}
	}
}

// ping reports whether the other side answers in time.
func ping(c *ssh.Client, ended <-chan struct{}) bool {
	said := make(chan error, 1)
	go func() { // ends with the answer or the connection
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		said <- err
	}()
	wait := time.NewTimer(connectIn)
	defer wait.Stop()
	select {
	case err := <-said:
		return err == nil
	case <-ended:
	case <-wait.C:
	}
	return false
}

// connect logs in.
func (l *link) connect(ctx context.Context) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	auth, done, err := l.auth(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	raw, err := (&net.Dialer{KeepAlive: pingEvery}).DialContext(ctx, "tcp", l.host.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	c, chans, reqs, err := ssh.NewClientConn(raw, l.host.Addr, &ssh.ClientConfig{User: l.host.User, Auth: auth, HostKeyCallback: l.checkKey})
	if !stop() || err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// checkKey compares a host's key with the pinned one.
func (l *link) checkKey(_ string, _ net.Addr, key ssh.PublicKey) error {
	if got := ssh.FingerprintSHA256(key); got != l.host.Key {
		return errPinned{got, l.host.Key}
	}
	return nil
}

// auth is how this server logs in: with the key it was given, else with those of its SSH agent.
func (l *link) auth(ctx context.Context) (_ []ssh.AuthMethod, done func(), err error) {
	if text := l.key(ctx); text != "" {
		signer, err := ssh.ParsePrivateKey([]byte(text))
		if err != nil {
			return nil, nil, wrongKey(err)
		}
		return []ssh.AuthMethod{ssh.PublicKeys(signer)}, func() {}, nil
	}
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, nil, fault.New(fault.Unavailable, "docker_host_no_key",
			"There is no key to log in with at the Docker host %s. Enter a private key, or start the server with an SSH agent (SSH_AUTH_SOCK).", l.host.Name)
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Unavailable, "docker_host_no_key", "The SSH agent at SSH_AUTH_SOCK does not answer. Start it, or enter a private key.")
	}
	return []ssh.AuthMethod{ssh.PublicKeysCallback(agent.NewClient(c).Signers)}, func() { _ = c.Close() }, nil
}

// wrongKey explains a private key that cannot be used.
func wrongKey(err error) error {
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return fault.Wrap(err, fault.Invalid, "docker_host_key_locked", "The private key has a passphrase. Enter one without, or leave it empty and use an SSH agent.")
	}
	return fault.Wrap(err, fault.Invalid, "docker_host_key_invalid", "The private key is none that can be read. Enter the whole file, from BEGIN to END.")
}

// inWords explains why a host cannot be used.
func (l *link) inWords(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	name := l.host.Name
	if pin, ok := errors.AsType[errPinned](err); ok {
		if pin.want == "" {
			return fault.Wrap(err, fault.Unavailable, "docker_host_not_pinned",
				"The Docker host %s has the key %s, which nobody confirmed. Compare it with what `ssh-keygen -lf` prints there, and add it to the host's line.", name, pin.got).
				With("fingerprint", pin.got)
		}
		return fault.Wrap(err, fault.Unavailable, "docker_host_key_changed",
			"The Docker host %s has the key %s instead of %s: another machine may answer in its place. Nothing was sent. If the machine was set up anew, change the fingerprint in its line.",
			name, pin.got, pin.want).With("fingerprint", pin.got)
	}
	if strings.Contains(err.Error(), "unable to authenticate") {
		return fault.Wrap(err, fault.Unavailable, "docker_host_login", "The Docker host %s refuses the login of %s. Add the key to ~/.ssh/authorized_keys there.", name, l.host.User)
	}
	// Its cause is text: Docker's client would replace a net.OpError below it by words of its own.
	return fault.New(fault.Unavailable, "docker_host_unreachable", "The Docker host %s does not answer at %s (%s). See that it runs and that this server reaches it.",
		name, l.host.Addr, strings.TrimPrefix(plain(err.Error()), "ssh: "))
}

// Close ends every connection. A sandbox may still be destroyed after it: connections that are made for that end with their last program.
func (l *link) Close() error {
	l.mu.Lock()
	conns := l.conns
	l.conns, l.closed = nil, true
	l.mu.Unlock()
	var all error
	for _, c := range conns {
		if err := c.client.Close(); !errors.Is(err, net.ErrClosed) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// stream is a program's standard input and output as a connection.
type stream struct {
	link    *link
	conn    *conn
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	said    docker.FirstWords
	done    chan struct{} // closed when it has ended
	once    sync.Once
}

// start opens a session and starts the program. The package ssh knows no context: a session that opens too late is closed.
func (s *stream) start(ctx context.Context, command string) error {
	opened := make(chan error, 1)
	go func() { // ends with the answer or the connection
		err := s.open(command)
		if err == nil && ctx.Err() != nil {
			_ = s.session.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		return cmp.Or(err, ctx.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stream) open(command string) error {
	session, err := s.conn.client.NewSession()
	if err != nil {
		return err
	}
	s.session, session.Stderr = session, &s.said
	if s.in, err = session.StdinPipe(); err == nil {
		if s.out, err = session.StdoutPipe(); err == nil {
			err = session.Start(command)
		}
	}
	if err != nil {
		_ = session.Close()
		return err
	}
	go func() { // ends with the program or the connection
		_ = session.Wait() // its standard error says why
		close(s.done)
	}()
	return nil
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if errors.Is(err, io.EOF) {
		err = s.why(err)
	}
	return n, err
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.in.Write(p)
	if errors.Is(err, io.EOF) { // it ended before it read everything
		err = s.why(err)
	}
	return n, err
}

// why returns the last words of a program that ended, err when it printed nothing.
func (s *stream) why(err error) error {
	<-s.done // all of its output is there
	if text := plain(s.said.String()); text != "" {
		return fmt.Errorf("%s: %s", s.link.host.Name, text)
	}
	return err
}

// CloseWrite closes the sending direction.
func (s *stream) CloseWrite() error { return s.in.Close() }

func (s *stream) Close() error {
	var err error
	s.once.Do(func() {
		if err = s.session.Close(); errors.Is(err, io.EOF) { // it has ended
			err = nil
		}
		s.link.give(s.conn)
	})
	return err
}

func (s *stream) LocalAddr() net.Addr              { return s.conn.client.LocalAddr() }
func (s *stream) RemoteAddr() net.Addr             { return s.conn.client.RemoteAddr() }
func (s *stream) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (s *stream) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (s *stream) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// plain makes one short line of arbitrary text.
func plain(s string) string {
	s = safetext.OneLine(s)
	return strings.ToValidUTF8(s[:min(len(s), 300)], "")
}
