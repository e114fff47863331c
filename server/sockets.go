package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/rest"
)

// Close codes of sockets.
const (
	closeNormal     = 1000
	closeGone       = 4001 // the session is not here any more
	closeNotAllowed = 4003
	closeSlow       = 4008 // reattach with the offset reached
	closeRestarting = 4012 // retry
)

// ending is why a socket ends, as the cause of its context.
type ending struct {
	code   int
	reason string
}

func (e *ending) Error() string { return e.reason }

var (
	endLeft       = &ending{closeNormal, "the client disconnected"}
	endRestarting = &ending{closeRestarting, "the server is restarting"}
	endNotAllowed = &ending{closeNotAllowed, "you may not use this any more"}
	endChanged    = &ending{closeRestarting, "what you may do here has changed"}
)

// socket is one open WebSocket: whose it is, what it needs of them, and how to end it.
type socket struct {
	cred   rest.Credential
	user   string
	object accounts.Object
	in     string // the workspace it is in, "" = none
	needs  []accounts.Action
	about  []string                        // ids of what it shows, beside its team: a workspace, a session
	link   string                          // id of the link it was opened with, "" = by somebody with a login
	check  func(ctx context.Context) error // of a link: whether it holds; asked instead of the login
	cancel context.CancelCauseFunc
}

// concerns reports whether an id is that of whoever a socket belongs to, or of what it shows.
func (k *socket) concerns(id string) bool {
	return id != "" && (id == k.user || id == k.object.TeamID || id == k.link || slices.Contains(k.about, id))
}

// sockets knows the open ones. They are asked again when what their people may do has become less, or who may see what they show, and
// all of them now and then, since another process may have changed that.
type sockets struct {
	mu        sync.Mutex
	open      map[*socket]struct{}
	dirty     map[string]struct{} // ids of what to ask about
	everybody bool                // all are to be asked
	closed    *ending             // set when no more are taken
	wake      chan struct{}
	gone      sync.WaitGroup
}

func newSockets() *sockets {
	return &sockets{open: map[*socket]struct{}{}, dirty: map[string]struct{}{}, wake: make(chan struct{}, 1)}
}

// add takes a socket in. The returned func must be called when it has ended.
func (ss *sockets) add(k *socket) (done func(), err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed != nil {
		return nil, rest.ErrStopping
	}
	ss.open[k] = struct{}{}
	ss.gone.Add(1)
	return func() {
		ss.mu.Lock()
		delete(ss.open, k)
		ss.mu.Unlock()
		ss.gone.Done()
	}, nil
}

// shut ends every socket and takes no more.
func (ss *sockets) shut(e *ending) {
	ss.mu.Lock()
	ss.closed = e
	for k := range ss.open {
		k.cancel(e)
	}
	ss.mu.Unlock()
}

// part ends the sockets through which others than a user may type in a workspace. They come back as whatever they may be then.
func (ss *sockets) part(workspaceID, user string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k := range ss.open {
		if k.in == workspaceID && k.user != user && slices.Contains(k.needs, accounts.TypeTerminal) {
			k.cancel(endChanged)
		}
	}
}

// wait returns when every socket has ended, or ctx has.
func (ss *sockets) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() { ss.gone.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Recheck asks again whether open sockets may stay: those of a user, or those that show something of a team, a workspace or a session,
// or that were opened with a link; the id says which. It does not wait for the answer. It is made for directory.Config.Changed.
func (s *Server) Recheck(id string) {
	ss := s.sockets
	ss.mu.Lock()
	ss.dirty[id] = struct{}{}
	ss.mu.Unlock()
	tasks.Wake(ss.wake)
}

// RecheckAll is Recheck for every open socket: for changes another process made.
func (s *Server) RecheckAll() {
	ss := s.sockets
	ss.mu.Lock()
	ss.everybody = true
	ss.mu.Unlock()
	tasks.Wake(ss.wake)
}

// recheckEvery is how often all sockets are asked again.
const recheckEvery = time.Minute

// watch asks sockets again until ctx ends. Who watches by a link is asked at every change of the workspace, too: nobody tells a link that
// the workspace became private or went away.
func (s *Server) watch(ctx context.Context) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	changes := s.cfg.Events.Subscribe("", 0)
	defer changes.Close()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			all = true
		case e := <-changes.C:
			all = changes.Missed()
			if !all && !s.sockets.linked(e.WorkspaceID) {
				continue
			}
		case <-s.sockets.wake:
		}
		for _, k := range s.sockets.due(all) {
			if !s.mayStay(ctx, k) {
				k.cancel(endNotAllowed)
			}
		}
	}
}

// linked notes that the sockets of links to a workspace must be asked about, and reports whether there are any.
func (ss *sockets) linked(workspaceID string) (any bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k := range ss.open {
		if k.link != "" && k.concerns(workspaceID) {
			ss.dirty[k.link], any = struct{}{}, true
		}
	}
	return any
}

// watching counts who watches by a link now.
func (ss *sockets) watching(link string) (n int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k := range ss.open {
		if k.link != "" && k.link == link {
			n++
		}
	}
	return n
}

// due returns the sockets to ask about.
func (ss *sockets) due(all bool) []*socket {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	var out []*socket
	for k := range ss.open {
		if all || ss.everybody || ss.isDirty(k) {
			out = append(out, k)
		}
	}
	clear(ss.dirty)
	ss.everybody = false
	return out
}

// isDirty reports whether a socket must be asked about. It is called under mu.
func (ss *sockets) isDirty(k *socket) bool {
	for id := range ss.dirty {
		if k.concerns(id) {
			return true
		}
	}
	return false
}

// mayStay asks who a socket belongs to now, and whether they still have what it needs. A database that does not answer ends no
// socket.
func (s *Server) mayStay(ctx context.Context, k *socket) bool {
	if k.check != nil {
		err := k.check(ctx)
		if err != nil && !fault.Is(err, fault.Gone) && ctx.Err() == nil {
			s.log.Warn("the rights of a socket could not be checked", "link_id", k.link, "error", err)
		}
		return !fault.Is(err, fault.Gone)
	}
	actor, err := rest.Authenticate(ctx, s.cfg.SignIn, k.cred)
	if err != nil {
		if kind := fault.KindOf(err); kind == fault.Unauthorized || kind == fault.NotFound || kind == fault.Forbidden {
			return false
		}
		if ctx.Err() == nil {
			s.log.Warn("the rights of a socket could not be checked", "user_id", k.user, "error", err)
		}
		return true
	}
	object := k.object
	if k.in != "" {
		ctx = tenant.In(ctx, actor.TeamIDs()...)
		w, err := s.cfg.Workspaces.Records.Workspace(ctx, k.in)
		if err == nil {
			object, err = s.ObjectOf(ctx, actor, w)
		}
		if fault.Is(err, fault.NotFound) {
			return false
		}
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("the rights of a socket could not be checked", "user_id", k.user, "error", err)
			}
			return true
		}
	}
	for _, a := range k.needs {
		if accounts.Can(actor, a, object) != nil {
			return false
		}
	}
	return true
}

// endingOf is why a socket's context ended.
func endingOf(ctx context.Context) *ending {
	if e, ok := errors.AsType[*ending](context.Cause(ctx)); ok {
		return e
	}
	return endLeft
}
