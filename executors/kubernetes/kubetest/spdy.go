package kubetest

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// spdyIdle ends a connection on which nothing moves; the real one waits four hours.
const spdyIdle = 4 * time.Hour

// execSPDY speaks v4.channel.k8s.io and later over SPDY/3.1.
func (s *Server) execSPDY(c *call, b *box, opts execOptions) error {
	offered := c.Header.Values("X-Stream-Protocol-Version")
	i := slices.IndexFunc(offered, func(one string) bool {
		return strings.Contains(one, "v4.channel.k8s.io") || strings.Contains(one, "v5.channel.k8s.io")
	})
	if i < 0 {
		return refuse(http.StatusForbidden, "unable to upgrade: none of the offered protocols is known: %v", offered)
	}
	c.w.Header().Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
	wanted := 1 // the stream of errors
	for _, one := range []bool{opts.stdin, opts.stdout, opts.stderr, opts.tty} {
		if one {
			wanted++
		}
	}
	type arrived struct {
		stream  httpstream.Stream
		replied <-chan struct{}
	}
	streams := make(chan arrived, wanted)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(c.w, c.Request, func(st httpstream.Stream, replied <-chan struct{}) error {
		select {
		case streams <- arrived{st, replied}:
			return nil
		default:
			return errors.New("too many streams")
		}
	})
	if conn == nil {
		return nil // it was answered
	}
	defer conn.Close()
	c.w.(*watched).status = http.StatusSwitchingProtocols
	conn.SetIdleTimeout(spdyIdle)
	defer s.opened(func() { _ = conn.Close() })()
	by := map[string]httpstream.Stream{}
	for len(by) < wanted {
		select {
		case a := <-streams:
			<-a.replied
			by[a.stream.Headers().Get("streamType")] = a.stream
		case <-conn.CloseChan():
			return nil
		case <-time.After(30 * time.Second):
			return nil
		}
	}
	var mu sync.Mutex
	p, err := b.begin(opts, func(stderr bool, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		to := by["stdout"]
		if stderr {
			to = by["stderr"]
		}
		_, err := to.Write(data)
		return err
	})
	if err == nil {
		if in := by["stdin"]; in != nil {
			s.wg.Go(func() { // ends with the connection
				buf := make([]byte, 32<<10)
				for {
					n, err := in.Read(buf)
					if n > 0 {
						_, _ = p.in.Write(buf[:n])
					}
					if err != nil {
						p.closeInput()
						return
					}
				}
			})
		}
		if sizes := by["resize"]; sizes != nil {
			s.wg.Go(func() { // likewise
				d := json.NewDecoder(sizes)
				for {
					var size struct{ Width, Height uint16 }
					if d.Decode(&size) != nil {
						return
					}
					p.resize(size.Width, size.Height)
				}
			})
		}
		err = p.wait()
	}
	_, _ = by["error"].Write(marshal(outcome(err)))
	for _, st := range by {
		_ = st.Close()
	}
	select { // the caller closes the connection when it has read all
	case <-conn.CloseChan():
	case <-time.After(5 * time.Second):
	case <-s.stop:
	}
	return nil
}
