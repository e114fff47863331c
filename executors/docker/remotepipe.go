//go:build linux || darwin

package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/guest/bridge"
	"github.com/parawork/parawork/guest/seal"
)

// remoteHelloIn is how long the guest in a remote container may take to say hello.
const remoteHelloIn = 20 * time.Second

// execPipe presents the standard input and output of a program in a container as a connection.
type execPipe struct {
	types.HijackedResponse
	mu   sync.Mutex // of what is read
	left uint32     // of the frame that is being read
	said []byte     // the beginning of its standard error
	once sync.Once
}

// maxSaidWrong limits how much of a program's standard error is stored.
const maxSaidWrong = 500

// exec starts a program in the sandbox's container as the guest's user, connected to the pipe it returns.
func (s *sandbox) exec(ctx context.Context, args ...string) (*execPipe, error) {
	api := s.e.api
	o := s.rec.owner()
	made, err := api.ContainerExecCreate(ctx, s.rec.Container, container.ExecOptions{User: fmt.Sprintf("%d:%d", o.uid, o.gid),
		AttachStdin: true, AttachStdout: true, AttachStderr: true, WorkingDir: "/", Cmd: append([]string{executors.InsideGuest}, args...)})
	if err != nil {
		return nil, inWords(fmt.Errorf("starting a program in the container: %w", err))
	}
	conn, err := api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, inWords(fmt.Errorf("reaching a program in the container: %w", err))
	}
	return &execPipe{HijackedResponse: conn}, nil
}

// Read reads the program's standard output. The engine puts a header before each frame of either output.
func (p *execPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(p.Reader, head[:]); err != nil {
			return 0, p.words(err)
		}
		n := binary.BigEndian.Uint32(head[4:])
		if head[0] == 1 {
			p.left = n
			continue
		}
		if err := p.complain(n); err != nil {
			return 0, err
		}
	}
	n, err := p.Reader.Read(b[:min(len(b), int(min(p.left, 1<<30)))])
	p.left -= uint32(n)
	if err != nil {
		err = p.words(err)
	}
	return n, err
}

// complain reads a frame of standard error.
func (p *execPipe) complain(n uint32) error {
	keep := make([]byte, min(int64(n), int64(maxSaidWrong-len(p.said))))
	if _, err := io.ReadFull(p.Reader, keep); err != nil {
		return err
	}
	p.said = append(p.said, keep...)
	_, err := io.CopyN(io.Discard, p.Reader, int64(n)-int64(len(keep)))
	return err
}

// words appends the program's standard error to the error that ended its output.
func (p *execPipe) words(err error) error {
	if text := plain(string(p.said), 200); text != "" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return errors.New(strings.TrimPrefix(text, "parawork-guest: "))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

func (p *execPipe) Write(b []byte) (int, error)        { return p.Conn.Write(b) }
func (p *execPipe) LocalAddr() net.Addr                { return p.Conn.LocalAddr() }
func (p *execPipe) RemoteAddr() net.Addr               { return p.Conn.RemoteAddr() }
func (p *execPipe) SetDeadline(t time.Time) error      { return p.Conn.SetDeadline(t) }
func (p *execPipe) SetReadDeadline(t time.Time) error  { return p.Conn.SetReadDeadline(t) }
func (p *execPipe) SetWriteDeadline(t time.Time) error { return p.Conn.SetWriteDeadline(t) }

// Close ends the program by closing its standard input.
func (p *execPipe) Close() error {
	p.once.Do(func() { p.HijackedResponse.Close() })
	return nil
}

// bridge opens a pipe to the guest of a container that shares nothing with this machine. wait is how long the guest may take to listen.
func (s *sandbox) bridge(ctx context.Context, wait time.Duration) (io.ReadWriteCloser, error) {
	p, err := s.exec(ctx, "bridge", "--wait", wait.String(), remoteSocket)
	if err != nil {
		return nil, err
	}
	done := context.AfterFunc(ctx, func() { _ = p.Close() })
	fail := func(err error) (io.ReadWriteCloser, error) {
		done()
		_ = p.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("opening a pipe to the guest: %w", err)
	}
	for _, word := range []string{bridge.Reached, bridge.Begun} {
		got := make([]byte, len(word))
		if _, err := io.ReadFull(p, got); err != nil {
			return fail(err)
		}
		if string(got) != word {
			return fail(errors.New("what answers in the container is not the guest's bridge"))
		}
		if word == bridge.Reached {
			if _, err := io.WriteString(p, bridge.Begin); err != nil {
				return fail(err)
			}
		}
	}
	sealed, err := seal.Client(p, s.token)
	if err != nil {
		return fail(err)
	}
	if !done() {
		return fail(context.Cause(ctx))
	}
	return sealed, nil
}

// startCarrying opens the way out of a sandbox that has one, and keeps it open until the sandbox is shut.
func (s *sandbox) startCarrying() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec.Gate == "" || s.way != nil || s.closed {
		return
	}
	run := func(carry func()) bool {
		go carry() // ends with the carrier
		return true
	}
	s.way = gate.Carry(context.Background(), run, gate.Way{Log: s.e.cfg.Log, Gate: func() string { return s.rec.Gate },
		Open: func(ctx context.Context) (net.Conn, error) { return s.exec(ctx, "egress-bridge", remoteGate) }})
}
