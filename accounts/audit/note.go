package audit

import (
	"context"
	"sync"
)

// Record is what becomes known of one operation while it is carried out: the server begins one for each request and makes an entry of
// it when the request has been answered. Safe for concurrent use.
type Record struct {
	mu       sync.Mutex
	source   Source
	teamID   string
	kind     string
	id       string
	name     string
	data     map[string]string
	called   string
	reported bool
}

type recordKey struct{}

// Begin returns a context in which what is noted goes into the returned Record.
func Begin(ctx context.Context) (context.Context, *Record) {
	r := &Record{}
	return context.WithValue(ctx, recordKey{}, r), r
}

func recordOf(ctx context.Context) *Record {
	r, _ := ctx.Value(recordKey{}).(*Record)
	return r
}

// change changes the record of ctx. Outside a request there is none, and callers need not check for that.
func change(ctx context.Context, fn func(r *Record)) {
	if r := recordOf(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		fn(r)
	}
}

// Note adds a fact to the entry of the operation that ctx belongs to: which role, which host. Never a secret, a token or a password,
// nor what people typed. An empty value is left out.
func Note(ctx context.Context, key, value string) {
	if value == "" {
		return
	}
	change(ctx, func(r *Record) {
		if r.data == nil {
			r.data = map[string]string{}
		}
		r.data[key] = value
	})
}

// Target says what the operation is about, where the path does not: kind is a word such as user or invite, name is for people.
func Target(ctx context.Context, kind, id, name string) {
	change(ctx, func(r *Record) { r.kind, r.id, r.name = kind, id, name })
}

// InTeam says whose chain the entry belongs to, where the path does not lead to the team.
func InTeam(ctx context.Context, teamID string) {
	change(ctx, func(r *Record) { r.teamID = teamID })
}

// As says who it turned out to be, where the request came with no login: a machine's token, somebody with a link.
func As(ctx context.Context, s Source) {
	change(ctx, func(r *Record) { r.source = s })
}

// Called gives the entry another word than the operation's, where what was done is less, or else.
func Called(ctx context.Context, action string) {
	change(ctx, func(r *Record) { r.called = action })
}

// Reported marks that a service has added the entry of this operation itself. An operation that fails is recorded all the same.
func Reported(ctx context.Context) {
	change(ctx, func(r *Record) { r.reported = true })
}

// Source is who As said it is; the zero Source when nobody did.
func (r *Record) Source() Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source
}

// Reported reports whether a service has added the entry.
func (r *Record) Reported() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}

// Complete writes into e what was noted.
func (r *Record) Complete(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.teamID != "" {
		e.Chain = r.teamID
	}
	if r.called != "" {
		e.Action = r.called
	}
	if r.kind != "" {
		e.TargetKind, e.TargetID, e.TargetName = r.kind, r.id, r.name
	}
	for k, v := range r.data {
		if e.Data == nil {
			e.Data = map[string]string{}
		}
		e.Data[k] = v
	}
}
