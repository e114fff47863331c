// Package call has a guest call its host over the network, where reaching it costs more than being reached by it: a pod that is reached through
// its cluster's API server holds a connection there for each pipe. The guest opens WebSockets at an address of the host and keeps one idle for
// each purpose (see package reversedial); the host takes one when it wants a pipe, or the sandbox's way out.
//
// Both ends prove a secret to each other before anything else is sent, and what is carried is sealed with the guest's token (see package seal):
// TLS of the outer connection hides it once more, and its certificate need not be known to the guest. The secret is good for one run of one
// sandbox. The host gives it to the guest by another way than this one, in its boot file.
//
// Where the host is, is in a file that the host may write anew: an address without names, so that a sandbox that may ask nobody for names, nor
// reach anything else, reaches it. The file is no secret: who changes it has the guest call somebody who cannot prove to be its host.
package call

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/guest/egressbridge"
	"github.com/parawork/parawork/guest/reversedial"
	"github.com/parawork/parawork/guest/seal"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/wsstream"
)

// Path is where hosts are called, below the address that people use.
const Path = "/api/v1/guest/connect"

// Purpose is what a connection is for.
type Purpose string

// Purposes.
const (
	Pipe   Purpose = "pipe"   // to the guest
	WayOut Purpose = "egress" // of the sandbox's programs: see package egressbridge
)

const (
	protocol     = "parawork.guest.1"
	dialWithin   = 10 * time.Second
	pingEvery    = 15 * time.Second // by the host; the guest, which always reads, notices by that when the host is gone
	quietCut     = 50 * time.Second
	maxMessage   = 32 << 10
	latest       = 3 * time.Second // between two attempts to reach a host
	saidSuffix   = ".said"         // behind the name of the file: why the last attempt failed, in words
	maxHostFile  = 64 << 10
	querySandbox = "sandbox"
	queryPurpose = "for"
)

// Host is where a host is called.
type Host struct {
	URL       string   `json:"url"`       // such as https://parawork.example.com
	Addresses []string `json:"addresses"` // IP addresses with ports, tried in order
}

// SaidFile is where a guest writes why it cannot reach the host that file names. It is missing while it can.
func SaidFile(file string) string { return file + saidSuffix }

// Secret is what a guest proves in one run of a sandbox whose guest has token.
func Secret(token, run string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte("call\x00" + run))
	return hex.EncodeToString(m.Sum(nil))
}

// Of is the secret for one purpose.
func Of(secret string, p Purpose) string { return secret + " " + string(p) }

// Config is how a guest calls its host.
type Config struct {
	File    string // with the Host, as JSON
	Sandbox string // its id
	Secret  string // from the boot file
	Token   string // of the guest
	Socket  string // where the guest listens
	Egress  string // where programs find the way out; "" = there is none
}

// Keep keeps calling the host until ctx ends.
func Keep(ctx context.Context, cfg Config) {
	var work sync.WaitGroup
	defer work.Wait()
	k := &keeper{cfg: cfg}
	serve := func(p Purpose, do func(net.Conn)) {
		l := k.listen(p)
		work.Go(func() {
			<-ctx.Done()
			_ = l.Close()
		})
		work.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				work.Go(func() {
					defer c.Close()
					defer context.AfterFunc(ctx, func() { _ = c.Close() })()
					do(c)
				})
			}
		})
	}
	serve(Pipe, k.join)
	if cfg.Egress != "" {
		serve(WayOut, func(c net.Conn) { _ = egressbridge.Run(ctx, []string{cfg.Egress}, c, c) }) // the host opens another one
	}
}

// keeper calls one host.
type keeper struct {
	cfg Config

	mu   sync.Mutex
	said string // as it is in the file
}

// listen accepts connections for one purpose.
func (k *keeper) listen(p Purpose) net.Listener {
	l := reversedial.Call(reversedial.Calls{Token: Of(k.cfg.Secret, p), Idle: 1, Late: latest, Said: k.say,
		Dial: func(ctx context.Context) (net.Conn, error) {
			h, err := readHost(k.cfg.File)
			if err != nil {
				return nil, err
			}
			return Dial(ctx, h, k.cfg.Sandbox, p)
		}})
	if p == WayOut { // pipes are sealed by who listens at the socket
		return seal.Listen(l, k.cfg.Token)
	}
	return l
}

// join connects a pipe with the guest's socket.
func (k *keeper) join(c net.Conn) {
	in, err := net.DialTimeout("unix", k.cfg.Socket, dialWithin)
	if err != nil {
		return
	}
	var up sync.WaitGroup
	defer up.Wait()
	defer in.Close()
	up.Go(func() {
		defer in.Close()
		_, _ = io.Copy(in, c)
	})
	_, _ = io.Copy(c, in)
	_ = c.Close()
}

// say keeps in a file why the host cannot be reached.
func (k *keeper) say(err error) {
	words := ""
	if err != nil {
		words = strings.TrimSpace(strings.ToValidUTF8(err.Error(), "?"))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if words == k.said {
		return
	}
	if k.said = words; words == "" {
		_ = os.Remove(SaidFile(k.cfg.File))
		return
	}
	_ = os.WriteFile(SaidFile(k.cfg.File), []byte(words), 0o600) // it only explains
}

func readHost(file string) (Host, error) {
	var h Host
	f, err := os.Open(file)
	if err != nil {
		return h, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHostFile))
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("reading where the host is: %w", err)
	}
	return h, nil
}

// buffers are those of frames, needed only during a write: idle connections hold none.
var buffers sync.Pool

// Dial opens a connection of a sandbox to its host. Nothing is proved yet.
func Dial(ctx context.Context, h Host, sandbox string, p Purpose) (net.Conn, error) {
	u, err := url.Parse(strings.TrimRight(h.URL, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a host", h.URL)
	}
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	u.Path += Path
	u.RawQuery = url.Values{querySandbox: {sandbox}, queryPurpose: {string(p)}}.Encode()
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	d := websocket.Dialer{Subprotocols: []string{protocol}, HandshakeTimeout: dialWithin, ReadBufferSize: 4 << 10, WriteBufferSize: maxMessage + 64, WriteBufferPool: &buffers,
		// Who is at the other end is proved inside, with a secret that only the host and this guest know.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		NetDialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			err := errors.New("no address of the host is known")
			for _, at := range h.Addresses {
				c, derr := new(net.Dialer).DialContext(ctx, network, at)
				if derr == nil {
					return c, nil
				}
				err = derr
			}
			return nil, err
		}}
	ws, resp, err := d.DialContext(ctx, u.String(), nil)
	if err != nil {
		return nil, whyNot(u.Host, resp, err)
	}
	if ws.Subprotocol() != protocol {
		_ = ws.Close()
		return nil, fmt.Errorf("%s does not speak the guests' protocol: is it the address of a Parawork server?", u.Host)
	}
	return wsstream.New(ws, wsstream.Config{Quiet: quietCut, Piece: maxMessage, Limit: 1 << 20}), nil // the host pings
}

// whyNot says why there is no WebSocket.
func whyNot(host string, resp *http.Response, err error) error {
	if resp == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return err
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(bytes.TrimSpace(b), &said) == nil && said.Message != "" {
		return fmt.Errorf("%s answered %d: %s", host, resp.StatusCode, said.Message)
	}
	return fmt.Errorf("%s answered %d instead of a WebSocket: is it the address of a Parawork server, and does the proxy before it forward WebSockets?", host, resp.StatusCode)
}

// Caller is who says to be a guest, and of what sandbox. Nothing of it is proved.
type Caller struct {
	Sandbox string
	For     Purpose
}

// Asks reads who calls. Errors are faults for whoever asked.
func Asks(r *http.Request) (Caller, error) {
	q := r.URL.Query()
	c := Caller{Sandbox: q.Get(querySandbox), For: Purpose(q.Get(queryPurpose))}
	switch {
	case !websocket.IsWebSocketUpgrade(r) || c.For != Pipe && c.For != WayOut:
		return c, fault.New(fault.Invalid, "guest_protocol", "This is where sandboxes elsewhere call, with a WebSocket. A proxy before the server must forward WebSockets.")
	case r.Header.Get("Origin") != "":
		return c, fault.New(fault.Forbidden, "guest_protocol", "Only sandboxes call here, not browsers.")
	}
	return c, nil
}

// Unknown is for callers of whom no call is expected.
func Unknown() error {
	return fault.New(fault.NotFound, "guest_unknown", "No sandbox of this name is expected to call.")
}

// Accept makes a connection of a request that Asks has read. After an error the request was answered. The connection outlives the request; its
// owner closes it.
func Accept(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	up := websocket.Upgrader{Subprotocols: []string{protocol}, HandshakeTimeout: dialWithin, ReadBufferSize: 4 << 10, WriteBufferSize: maxMessage + 64, WriteBufferPool: &buffers}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("accepting a guest: %w", err)
	}
	return wsstream.New(ws, wsstream.Config{Ping: pingEvery, Quiet: quietCut, Piece: maxMessage, Limit: 1 << 20}), nil
}
