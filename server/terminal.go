package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
)

// The terminal's socket speaks gorilla/websocket itself. melody, which keeps the events' sockets, queues frames and drops them
// when the queue is full, which corrupts a terminal without a word, and its queue costs a quarter of the throughput and most of
// a keystroke's time. Here nothing queues: the writer pulls one frame from the viewer, writes it, and pulls the next.

// First bytes of the frames that go up, and of the two that this file sends down.
const (
	upInput = iota
	upSize
	upAck
	upPing
	upTakeSize
	upControl
	upColors

	downError = 5
	downPong  = 6
)

// Bounds of a terminal's socket.
const (
	terminalFrame = 64<<10 + 9          // bytes of one frame down
	terminalRead  = guest.MaxInput + 16 // bytes of one frame up
	inputWaiting  = 2 << 20             // bytes typed that the program has not taken: then reading stops
	framesWaiting = 1024                // the same in frames
	writePatience = 30 * time.Second    // for one frame to leave
	pingEvery     = 20 * time.Second    // keeps proxies from closing a quiet terminal
	readPatience  = 3 * pingEvery       // a client that answers no ping is gone
	goodbye       = 2 * time.Second     // for the client to answer a close
	controlWait   = 500 * time.Millisecond
)

// upgrader takes over the connection with net/http's own buffers. Who may open a socket was decided by checkSocket.
var upgrader = websocket.Upgrader{HandshakeTimeout: 10 * time.Second, CheckOrigin: func(*http.Request) bool { return true }}

// terminal is one client at one session's terminal.
type terminal struct {
	conn   *websocket.Conn
	viewer *sessions.Viewer
	guest  bool // by a link: all one may do is look
	cancel context.CancelCauseFunc

	// A frame from the reader goes out between two of the writer's. Whoever does not get the pen leaves a note, and who has the
	// pen reads the notes after putting it down.
	pen   sync.Mutex
	pong  atomic.Bool
	fault atomic.Pointer[fault.Error]

	typed chan []byte
	bytes atomic.Int64  // typed and waiting
	taken chan struct{} // something was typed through
}

// attachTerminal is GET /sessions/{id}/terminal.
func (s *Server) attachTerminal(c echo.Context) error {
	r := c.Request()
	call := rest.CallOf(r.Context())
	if !websocket.IsWebSocketUpgrade(r) {
		return fault.New(fault.Invalid, "websocket_only", "This address is a WebSocket.")
	}
	want, err := s.attachOf(call, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(endLeft)
	needs := []accounts.Action{accounts.ViewTerminal}
	if want.Writer {
		needs = append(needs, accounts.TypeTerminal)
		if want.Takes { // the socket keeps what it was opened with
			needs = append(needs, accounts.TakeTerminal)
		}
	}
	done, err := s.sockets.add(&socket{cred: call.Cred, user: call.Actor.User.ID, object: call.Object, in: call.Session.WorkspaceID, needs: needs,
		about: []string{call.Session.WorkspaceID, call.Session.ID}, cancel: cancel})
	if err != nil {
		return err
	}
	defer done()
	viewer, err := s.cfg.Sessions.Attach(ctx, call.Session.ID, want)
	if err != nil {
		return err
	}
	defer viewer.Close()
	if want.Writer {
		s.recordTyping(ctx, c, call)
	}
	s.serveTerminal(ctx, cancel, c, viewer, false)
	return nil
}

// serveTerminal takes the connection over and shows it a terminal until one side ends that.
func (s *Server) serveTerminal(ctx context.Context, cancel context.CancelCauseFunc, c echo.Context, viewer *sessions.Viewer, guest bool) {
	call := rest.CallOf(c.Request().Context())
	conn, err := upgrader.Upgrade(c.Response(), c.Request(), http.Header{"X-Request-Id": {call.ID}})
	if err != nil {
		call.Status = http.StatusBadRequest // gorilla has answered
		return
	}
	call.Status = http.StatusSwitchingProtocols
	t := &terminal{conn: conn, viewer: viewer, guest: guest, cancel: cancel, typed: make(chan []byte, framesWaiting), taken: make(chan struct{}, 1)}
	t.serve(ctx)
}

// attachOf reads what the client asks for.
func (s *Server) attachOf(call *rest.Call, r *http.Request) (sessions.Attach, error) {
	a := sessions.Attach{UserID: call.Actor.User.ID, Name: call.Actor.User.Name}
	may := call.Can(accounts.TypeTerminal)
	if may == nil {
		may = s.Works(r.Context(), call)
	}
	a.Takes = call.Can(accounts.TakeTerminal) == nil
	switch r.URL.Query().Get("role") {
	case "": // whatever one may
		a.Writer = may == nil
	case "viewer":
	case "writer":
		if may != nil {
			return a, may
		}
		a.Writer = true
	default:
		return a, fault.New(fault.Invalid, "invalid_parameter", "role must be viewer or writer.").With("field", "role")
	}
	var err error
	a.From, err = fromOf(r)
	return a, err
}

// fromOf reads the offset of the first byte the client has not, nil when it names none.
func fromOf(r *http.Request) (*int64, error) {
	from := r.URL.Query().Get("from")
	if from == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(from, 10, 64)
	if err != nil || n < 0 {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "from must be an offset: a whole number, 0 or more.").With("field", "from")
	}
	return &n, nil
}

// serve runs the socket until one side ends it. The reader is the caller's goroutine; it waits for the other three.
func (t *terminal) serve(ctx context.Context) {
	defer t.conn.Close()
	var all sync.WaitGroup
	all.Go(func() { t.cancel(t.down(ctx)) })
	all.Go(func() { t.typist(ctx) })
	all.Go(func() { t.pinger(ctx) })
	err := t.up(ctx)
	t.cancel(upEnding(err))
	t.sayGoodbye(endingOf(ctx))
	// What the client sent meanwhile is read away: closing over unread bytes would make the kernel throw away ours, the close
	// code among them.
	for err == nil || errors.Is(err, errUpEnded) {
		_, _, err = t.conn.NextReader()
	}
	t.conn.Close()
	all.Wait()
}

// down pulls frames and writes them until there are no more, and says why.
func (t *terminal) down(ctx context.Context) error {
	buf := make([]byte, terminalFrame)
	for {
		frame, err := t.viewer.Next(ctx, buf)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return &ending{closeNormal, "the session has ended"}
		case errors.Is(err, sessions.ErrSlow):
			return &ending{closeSlow, "too slow: reattach with the offset reached"}
		case errors.Is(err, sessions.ErrRestarting):
			return endRestarting
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return &ending{closeGone, "the session is gone"}
		}
		if err := t.write(frame); err != nil {
			var timeout interface{ Timeout() bool }
			if errors.As(err, &timeout) && timeout.Timeout() {
				return &ending{closeSlow, "too slow: reattach with the offset reached"}
			}
			return endLeft
		}
	}
}

// write writes one frame, then the notes that were left meanwhile.
func (t *terminal) write(frame []byte) error {
	t.pen.Lock()
	_ = t.conn.SetWriteDeadline(time.Now().Add(writePatience))
	err := t.conn.WriteMessage(websocket.BinaryMessage, frame)
	t.pen.Unlock()
	t.notes()
	return err
}

// notes writes what the reader has to say, unless somebody writes now: they do it then.
func (t *terminal) notes() {
	for t.pong.Load() || t.fault.Load() != nil {
		if !t.pen.TryLock() {
			return
		}
		_ = t.conn.SetWriteDeadline(time.Now().Add(writePatience))
		if t.pong.Swap(false) {
			_ = t.conn.WriteMessage(websocket.BinaryMessage, []byte{downPong}) // a broken pipe shows at the next read
		}
		if f := t.fault.Swap(nil); f != nil {
			_ = t.conn.WriteMessage(websocket.BinaryMessage, errorFrame(f))
		}
		t.pen.Unlock()
	}
}

func errorFrame(f *fault.Error) []byte {
	raw, err := json.Marshal(map[string]any{"code": f.Code, "message": f.Message})
	if err != nil {
		return []byte{downError, '{', '}'}
	}
	return append([]byte{downError}, raw...)
}

// complain tells the client about something it asked for that cannot be.
func (t *terminal) complain(err error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f = fault.New(fault.Internal, "internal", "Something went wrong on the server.")
	}
	t.fault.Store(f)
	t.notes()
}

// errUpEnded says that reading stopped for a reason of ours.
var errUpEnded = errors.New("socket ends")

// up reads frames until the client leaves or ctx ends.
func (t *terminal) up(ctx context.Context) error {
	t.conn.SetReadLimit(terminalRead)
	t.patience(ctx)
	t.conn.SetPongHandler(func(string) error { t.patience(ctx); return nil })
	var small [64]byte
	for {
		kind, r, err := t.conn.NextReader()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errUpEnded
		}
		t.patience(ctx)
		if kind != websocket.BinaryMessage {
			t.cancel(&ending{websocket.CloseUnsupportedData, "binary frames only"})
			return errUpEnded
		}
		frame, err := readFrame(r, small[:])
		if err != nil {
			return err
		}
		if len(frame) > 0 {
			t.take(ctx, frame)
		}
	}
}

// readFrame reads one message. Short ones, which all but pastes are, go into small.
func readFrame(r io.Reader, small []byte) ([]byte, error) {
	n, err := io.ReadFull(r, small)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return small[:n], nil
	case err != nil:
		return nil, err
	}
	rest, err := io.ReadAll(r)
	return append(append(make([]byte, 0, n+len(rest)), small...), rest...), err
}

// patience gives the client more time to say something.
func (t *terminal) patience(ctx context.Context) {
	if ctx.Err() == nil {
		_ = t.conn.SetReadDeadline(time.Now().Add(readPatience))
	}
}

// take does what one frame asks. A frame of a kind we do not know is from a newer client and asks for nothing.
func (t *terminal) take(ctx context.Context, frame []byte) {
	arg := frame[1:]
	if t.guest && frame[0] != upAck && frame[0] != upPing {
		return
	}
	switch frame[0] {
	case upInput:
		t.typeIn(ctx, append([]byte(nil), arg...))
	case upSize:
		if len(arg) == 4 {
			t.viewer.Wish(guest.Size{Cols: binary.BigEndian.Uint16(arg), Rows: binary.BigEndian.Uint16(arg[2:])})
		}
	case upAck:
		if len(arg) == 8 {
			if off := binary.BigEndian.Uint64(arg); off <= math.MaxInt64 {
				t.viewer.Ack(int64(off))
			}
		}
	case upPing:
		t.pong.Store(true)
		t.notes()
	case upTakeSize:
		if err := t.viewer.TakeSize(); err != nil {
			t.complain(err)
		}
	case upControl:
		t.control(ctx, arg)
	case upColors:
		if len(arg) == 9 {
			t.viewer.Colors([9]byte(arg))
		}
	}
}

// control does what a client asks about the keyboard: JSON {"do","to"}.
func (t *terminal) control(ctx context.Context, arg []byte) {
	var ask struct {
		Do string `json:"do"`
		To string `json:"to"`
	}
	if len(arg) > 1024 || json.Unmarshal(arg, &ask) != nil {
		t.complain(fault.New(fault.Invalid, "invalid_control", "Keyboard commands must be JSON: {\"do\",\"to\"}."))
		return
	}
	if err := t.viewer.Control(ctx, sessions.Control(ask.Do), ask.To); err != nil {
		t.complain(err)
	}
}

// typeIn hands what was typed to the typist. A program that does not read what is typed must not hold up the acknowledgements
// behind it; only when much waits does reading stop.
func (t *terminal) typeIn(ctx context.Context, p []byte) {
	if len(p) == 0 {
		return
	}
	for t.bytes.Load() > 0 && t.bytes.Load()+int64(len(p)) > inputWaiting {
		select {
		case <-t.taken:
		case <-ctx.Done():
			return
		}
	}
	t.bytes.Add(int64(len(p)))
	select {
	case t.typed <- p:
	case <-ctx.Done():
	}
}

// typist types, in order.
func (t *terminal) typist(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-t.typed:
			if err := t.viewer.Input(ctx, p); err != nil && ctx.Err() == nil {
				t.complain(err)
			}
			t.bytes.Add(-int64(len(p)))
			tasks.Wake(t.taken)
		}
	}
}

// pinger keeps the connection alive, and when the socket ends sees to it that nobody waits long for a client that hangs.
func (t *terminal) pinger(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = t.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(controlWait)) // a busy line needs none
		case <-ctx.Done():
			raw := t.conn.NetConn()
			_ = raw.SetWriteDeadline(time.Now().Add(goodbye))
			_ = raw.SetReadDeadline(time.Now().Add(goodbye))
			t.sayGoodbye(endingOf(ctx))
			return
		}
	}
}

// sayGoodbye sends the close code. Twice is harmless: gorilla sends one close frame only.
func (t *terminal) sayGoodbye(e *ending) {
	_ = t.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(e.code, e.reason), time.Now().Add(controlWait))
}

func upEnding(err error) error {
	if errors.Is(err, errUpEnded) {
		return err // the cause is set already
	}
	return endLeft
}
