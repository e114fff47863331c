package sessions

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/parawork/parawork/sessions/state"
)

// First bytes of the frames sent over the terminal socket.
const (
	opOutput = 0
	opScreen = 1
	opSize   = 2
	opState  = 3
	opExit   = 4
	opError  = 5
)

// seatJSON is a viewer in a state frame.
type seatJSON struct {
	ID     string `json:"id"`
	UserID string `json:"user_id"`
	Name   string `json:"name"`
	Role   string `json:"role"` // writer, viewer, or guest: by a link, without a login
}

// stateJSON is a state frame. Writer is who typed last, SizeOwner who determines the terminal's size, You the reader: IDs of
// viewers.
type stateJSON struct {
	State       state.State `json:"state"`
	Reason      string      `json:"reason"`
	StateAt     int64       `json:"state_at"`
	Asleep      bool        `json:"asleep,omitempty"` // its workspace is suspended, and wakes when somebody types
	Title       string      `json:"title"`
	Notice      string      `json:"notice,omitempty"` // what people should know in addition to the state, such as a full disk
	Viewers     []seatJSON  `json:"viewers"`
	ViewerCount int         `json:"viewer_count"`
	Writer      *seatJSON   `json:"writer"`
	WriterAt    int64       `json:"writer_at,omitempty"` // when the writer's last burst of keys was reported, ms UTC
	SizeOwner   *seatJSON   `json:"size_owner"`
	Keyboard    *heldJSON   `json:"keyboard"` // null: everybody who may type can type
	MayTake     bool        `json:"may_take"` // the reader may take the keyboard from its holder
	You         string      `json:"you"`
	Grace       *Grace      `json:"grace,omitempty"` // its workspace reached a limit
}

// Grace describes work that reached a limit: it continues until EndsAt, then its sandbox is suspended until the limit allows it
// again.
type Grace struct {
	Scope  string `json:"scope"`   // which limit: user_hours, team_budget, team_overage, session_minutes, kill_switch, past_due
	State  string `json:"state"`   // counting, stopping, stopped
	EndsAt int64  `json:"ends_at"` // ms UTC
	LeftMs int64  `json:"left_ms"` // time left, so that the reader's clock does not matter
	Reason string `json:"reason"`  // as text
}

// heldJSON describes a keyboard held by one person.
type heldJSON struct {
	UserID string   `json:"user_id"`
	Name   string   `json:"name"`
	Since  int64    `json:"since"`
	Mine   bool     `json:"mine"`
	Asking []asking `json:"asking"`
}

type exitJSON struct {
	State      state.State `json:"state"`
	Reason     string      `json:"reason"`
	ExitCode   *int        `json:"exit_code"`
	ExitSignal string      `json:"exit_signal"`
	EndedAt    int64       `json:"ended_at"`
	Bytes      int64       `json:"bytes"`
}

type errorJSON struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func viewerID(n uint64) string { return "v" + strconv.FormatUint(n, 10) }

func (v *Viewer) seat() seatJSON {
	role := "viewer"
	if v.writer {
		role = "writer"
	}
	if v.guest {
		role = "guest"
	}
	return seatJSON{ID: v.id, UserID: v.user, Name: v.name, Role: role}
}

// stale reports whether news has something to send. The caller holds l.mu.
func (v *Viewer) stale() bool {
	if v.exited || v.bad != nil {
		return false
	}
	size, _ := v.l.rec.SizeAt(v.off)
	return v.snap != nil || v.size != size || v.gen != v.l.gen
}

// news returns the next frame that is not output: size, screen, state, error; nil when there is none. It uses buf.
func (v *Viewer) news(buf []byte) ([]byte, error) {
	if v.bad != nil {
		if v.exited {
			return nil, ErrOffset
		}
		v.exited = true
		return jsonFrame(buf, opError, errorJSON{Code: v.bad.Code, Message: v.bad.Message, Details: v.bad.Details})
	}
	if v.exited {
		return nil, io.EOF
	}
	l := v.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.closed {
		return nil, ErrGone
	}
	if size, _ := l.rec.SizeAt(v.off); v.size != size { // the terminal's size when this was printed
		v.size = size
		buf[0] = opSize
		binary.BigEndian.PutUint16(buf[1:], size.Cols)
		binary.BigEndian.PutUint16(buf[3:], size.Rows)
		return buf[:5], nil
	}
	if f := v.snap; f != nil {
		v.snap = nil
		return f, nil
	}
	if v.gen != l.gen {
		v.gen = l.gen
		return jsonFrame(buf, opState, v.state())
	}
	return nil, nil
}

// state is the content of a state frame. The caller holds l.mu.
func (v *Viewer) state() stateJSON {
	l := v.l
	if v.guest { // who else is watching, and what concerns people, is for the team only
		return stateJSON{State: l.row.State, StateAt: l.row.StateAt, Asleep: l.asleepNow(), Title: l.row.Title, Viewers: []seatJSON{}, You: v.id}
	}
	reason := l.row.StateReason
	asleep := false
	if why, paused := l.paused(); paused && !l.row.State.Ended() {
		reason, asleep = cmp.Or(why, "It is paused."), l.asleep()
	}
	out := stateJSON{Asleep: asleep, State: l.row.State, Reason: reason, StateAt: l.row.StateAt, Title: l.row.Title, Notice: l.notice, ViewerCount: len(l.seats.viewers), You: v.id}
	if g, ok := l.svc.graceOf(l.workspaceID); ok && !l.row.State.Ended() {
		out.Grace = &g
	}
	all := make([]*Viewer, 0, len(l.seats.viewers))
	for o := range l.seats.viewers {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *Viewer) int { return int(int64(a.num) - int64(b.num)) })
	out.Viewers = make([]seatJSON, 0, min(len(all), maxListed))
	for _, o := range all[:min(len(all), maxListed)] {
		out.Viewers = append(out.Viewers, o.seat())
	}
	if l.seats.typist != nil {
		s := l.seats.typist.seat()
		out.Writer, out.WriterAt = &s, l.seats.typist.typingAt.UnixMilli()
	}
	if k := &l.held; k.holder != "" {
		out.Keyboard = &heldJSON{UserID: k.holder, Name: k.name, Since: k.since, Mine: k.holder == v.user, Asking: append([]asking{}, k.asking...)}
	}
	out.MayTake = v.takes
	if l.size.owner != nil {
		s := l.size.owner.seat()
		out.SizeOwner = &s
	}
	return out
}

// asleepNow reports whether the workspace is suspended until somebody needs it. The caller holds l.mu.
func (l *live) asleepNow() bool {
	_, paused := l.paused()
	return paused && !l.row.State.Ended() && l.asleep()
}

func putHead(buf []byte, op byte, off int64) {
	buf[0] = op
	binary.BigEndian.PutUint64(buf[1:], uint64(off))
}

func exitFrame(buf []byte, row Session) ([]byte, error) {
	return jsonFrame(buf, opExit, exitJSON{State: row.State, Reason: row.StateReason, ExitCode: row.ExitCode, ExitSignal: row.ExitSignal,
		EndedAt: row.EndedAt, Bytes: row.Bytes})
}

func jsonFrame(buf []byte, op byte, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(raw)+1 > len(buf) {
		return nil, errors.New("state frame does not fit its buffer")
	}
	buf[0] = op
	return buf[:1+copy(buf[1:], raw)], nil
}
