package mcprelay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"github.com/parawork/parawork/guest"
)

// stream is a connection that a server has accepted.
type stream struct {
	conn        net.Conn
	from        *bufio.Reader
	initialized bool          // the agent's session is complete at this server
	done        chan struct{} // closed when nothing more can be read
}

func (s *stream) close() { _ = s.conn.Close() }

// connect connects to a server: the guest's socket, until a host has accepted, and the agent's session again.
func (r *relay) connect(ctx context.Context) (*stream, error) {
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", r.cfg.Env(guest.EnvTools))
	if err != nil {
		return nil, err
	}
	s := &stream{conn: conn, from: bufio.NewReaderSize(conn, 64<<10), done: make(chan struct{})}
	stop := context.AfterFunc(ctx, s.close)
	err = r.open(s)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (r *relay) open(s *stream) error {
	hello, err := json.Marshal(guest.ToolHello{Token: r.cfg.Env(guest.EnvHookToken), Use: guest.UseMCP})
	if err != nil {
		return err
	}
	_ = s.conn.SetDeadline(time.Now().Add(acceptIn))
	if _, err := s.conn.Write(append(hello, '\n')); err != nil {
		return err
	}
	greeting := make([]byte, len(guest.ToolGreeting))
	if _, err := io.ReadFull(s.from, greeting); err != nil {
		return err
	}
	if string(greeting) != guest.ToolGreeting {
		return errors.New("the guest did not confirm the connection")
	}
	_ = s.conn.SetDeadline(time.Now().Add(replayIn))
	if err := r.replay(s); err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// replay repeats the agent's initialize and takes the answer from the stream.
func (r *relay) replay(s *stream) error {
	r.mu.Lock()
	initialize, initialized := r.initialize, r.initialized
	r.mu.Unlock()
	if initialize == nil {
		return nil
	}
	if _, err := s.conn.Write(append(initialize, '\n')); err != nil {
		return err
	}
	id := string(parse(initialize)[0].ID)
	for {
		l, err := readLine(s.from)
		if err != nil {
			return err
		}
		if l.long != nil {
			continue
		}
		for _, m := range parse(l.data) {
			if !m.response() || string(m.ID) != id {
				continue
			}
			if m.Result == nil {
				return errors.New("the server refused the agent's session")
			}
			if initialized == nil {
				return nil
			}
			s.initialized = true
			_, err := s.conn.Write(append(initialized, '\n'))
			return err
		}
	}
}
