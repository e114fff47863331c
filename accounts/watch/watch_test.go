package watch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/internal/fault"
)

// rig is a Service over links, a session and people in memory.
type rig struct {
	*watch.Service
	cfg     watch.Config
	links   []row // the oldest first
	subject *watch.Subject
	people  map[string]accounts.Actor
	now     time.Time
	ended   []string
	entries []audit.Entry
	broken  error
}

type row struct {
	watch.Link
	hash string
}

func newRig() *rig {
	r := &rig{subject: &watch.Subject{WorkspaceID: "ws", Object: accounts.Object{TeamID: "team", OwnerID: "ada"}}, people: map[string]accounts.Actor{}, now: time.UnixMilli(1_000_000_000)}
	r.join("ada", accounts.Member)
	r.cfg = watch.Config{Store: r, Audit: r, Ended: func(id string) { r.ended = append(r.ended, id) }, Now: func() time.Time { return r.now },
		Subject: func(_ context.Context, id string) (watch.Subject, error) {
			if r.subject == nil || id != "ses" {
				return watch.Subject{}, missing()
			}
			return *r.subject, r.broken
		},
		Actor: func(_ context.Context, id string) (accounts.Actor, error) {
			a, ok := r.people[id]
			if !ok {
				return a, missing()
			}
			return a, nil
		}}
	r.Service = watch.New(r.cfg)
	return r
}

func missing() error { return fault.New(fault.NotFound, "not_found", "There is no such thing.") }

func (r *rig) join(user string, role accounts.Role) accounts.Actor {
	r.people[user] = accounts.Actor{User: accounts.User{ID: user}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: "team"}, Role: role}}}
	return r.people[user]
}

func (r *rig) Tx(ctx context.Context, fn func(context.Context) error) error {
	before := slices.Clone(r.links)
	err := fn(ctx)
	if err != nil {
		r.links = before
	}
	return err
}

func (r *rig) InsertWatchLink(_ context.Context, l watch.Link, hash string) error {
	r.links = append(r.links, row{l, hash})
	return nil
}

func (r *rig) find(is func(row) bool) (watch.Link, error) {
	if i := slices.IndexFunc(r.links, is); i >= 0 {
		return r.links[i].Link, r.broken
	}
	return watch.Link{}, missing()
}

func (r *rig) WatchLink(_ context.Context, id string) (watch.Link, error) {
	return r.find(func(l row) bool { return l.ID == id })
}

func (r *rig) WatchLinkByHash(_ context.Context, hash string) (watch.Link, error) {
	return r.find(func(l row) bool { return l.hash == hash })
}

func (r *rig) WatchLinks(_ context.Context, teamID, sessionID string, notEndedAt int64) (out []watch.Link, err error) {
	for _, l := range slices.Backward(r.links) {
		if l.TeamID == teamID && (sessionID == "" || l.SessionID == sessionID) && l.ExpiresAt > notEndedAt && (l.RevokedAt == 0 || l.RevokedAt > notEndedAt) {
			out = append(out, l.Link)
		}
	}
	return out, r.broken
}

func (r *rig) UseWatchLink(_ context.Context, teamID, id string, at int64) error {
	for i := range r.links {
		if l := &r.links[i]; l.TeamID == teamID && l.ID == id {
			l.Uses, l.LastUsedAt = l.Uses+1, at
		}
	}
	return nil
}

func (r *rig) RevokeWatchLink(_ context.Context, teamID, id string, at int64) error {
	for i := range r.links {
		if l := &r.links[i]; l.TeamID == teamID && l.ID == id && l.RevokedAt == 0 {
			l.RevokedAt = at
			return nil
		}
	}
	return missing()
}

func (r *rig) Append(_ context.Context, e audit.Entry) error {
	r.entries = append(r.entries, e)
	return nil
}

func (r *rig) create(t *testing.T) (watch.Link, string) {
	t.Helper()
	l, token, err := r.Create(t.Context(), r.people["ada"], "ses", "for Grace", 0)
	if err != nil {
		t.Fatal(err)
	}
	return l, token
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code || code == "" && err != nil {
		t.Errorf("%s: %v, want the code %q", what, err, code)
	}
}

func TestALinkIsMadeAndOpened(t *testing.T) {
	t.Parallel()
	r := newRig()
	l, token := r.create(t)
	if l.TeamID != "team" || l.WorkspaceID != "ws" || l.SessionID != "ses" || l.Name != "for Grace" || l.CreatedBy != "ada" || l.ExpiresAt-l.CreatedAt != time.Hour.Milliseconds() {
		t.Errorf("%+v", l)
	}
	if !strings.HasPrefix(token, "pw_watch_") || strings.Contains(fmt.Sprint(r.links), token) || strings.Contains(fmt.Sprint(r.links), token[9:]) {
		t.Errorf("the token %s is kept: %+v", token, r.links)
	}
	_, other := r.create(t)
	if other == token {
		t.Error("two links have one token")
	}
	for uses := int64(1); uses < 4; uses++ {
		r.now = r.now.Add(time.Minute)
		got, err := r.Enter(t.Context(), token)
		if err != nil || got.ID != l.ID || got.Uses != uses || got.LastUsedAt != r.now.UnixMilli() {
			t.Errorf("opened: %+v, %v", got, err)
		}
	}
	if got, err := r.ByToken(t.Context(), token); err != nil || got.Uses != 3 { // to look again counts nothing
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.Link(t.Context(), l.ID); err != nil || got.Uses != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	wantCode(t, "while it is open", r.Check(t.Context(), l.ID), "")
	if len(r.ended)+len(r.entries) != 0 {
		t.Errorf("ended %v, audit %+v", r.ended, r.entries)
	}
}

func TestTokensThatAreNone(t *testing.T) {
	t.Parallel()
	r := newRig()
	_, token := r.create(t)
	flip := []byte(token)
	if flip[20]++; flip[20] > 'z' || flip[20] == '[' || flip[20] == ':' || flip[20] == '`' {
		flip[20] = 'a'
	}
	for what, bad := range map[string]string{"nothing": "", "another": string(flip), "its beginning": token[:len(token)-1], "more": token + "a", "without its beginning": token[9:], "not base64": token[:len(token)-1] + "%",
		"of another kind": "pw_other_" + token[9:], "a blank before it": " " + token[:len(token)-1]} {
		_, err := r.Enter(t.Context(), bad)
		wantCode(t, what, err, "link_ended") // the same code whether or not there ever was one
	}
	wantCode(t, "no such link", r.Check(t.Context(), "wln_none"), "link_ended")
	if r.links[0].Uses != 0 {
		t.Errorf("counted: %+v", r.links)
	}
}

func TestWhatALinkMayBe(t *testing.T) {
	t.Parallel()
	r := newRig()
	create := func(what string, who accounts.Actor, name string, minutes int, code string) {
		t.Helper()
		before := len(r.links)
		l, token, err := r.Create(t.Context(), who, "ses", name, minutes)
		wantCode(t, what, err, code)
		if code != "" && (token != "" || l.ID != "" || len(r.links) != before) {
			t.Errorf("%s: made %+v", what, l)
		}
	}
	ada := r.people["ada"]
	create("the shortest", ada, "", watch.MinMinutes, "")
	create("the longest", ada, strings.Repeat("ä", 80), watch.MaxMinutes, "")
	create("too short", ada, "", watch.MinMinutes-1, "invalid_minutes")
	create("before now", ada, "", -5, "invalid_minutes")
	create("too long", ada, "", watch.MaxMinutes+1, "invalid_minutes")
	create("a long name", ada, strings.Repeat("ä", 81), 0, "invalid_name")
	create("a name of two lines", ada, "a\nb", 0, "invalid_name")
	create("a name that is no text", ada, "\xff", 0, "invalid_name")
	create("somebody who only looks on", r.join("vic", accounts.Viewer), "", 0, "forbidden")
	create("a stranger", accounts.Actor{User: accounts.User{ID: "eve"}}, "", 0, "not_found")
	r.subject.Object.Private = true
	create("of a private workspace", ada, "", 0, "workspace_private")
	r.subject = nil
	create("of a session that is gone", ada, "", 0, "not_found")
	r = newRig()
	r.cfg.Rand = iotest.ErrReader(errors.New("no entropy"))
	if _, token, err := watch.New(r.cfg).Create(t.Context(), ada, "ses", "", 0); err == nil || token != "" || len(r.links) != 0 {
		t.Errorf("made without randomness: %q, %v", token, err)
	}
	r.cfg.Rand = bytes.NewReader(make([]byte, 32))
	if _, token, err := watch.New(r.cfg).Create(t.Context(), ada, "ses", "", 0); err != nil || token != "pw_watch_"+strings.Repeat("A", 43) {
		t.Errorf("%q, %v", token, err)
	}
}

func TestASessionHasSoManyLinks(t *testing.T) {
	t.Parallel()
	r := newRig()
	var last watch.Link
	for range 20 {
		last, _ = r.create(t)
	}
	_, _, err := r.Create(t.Context(), r.people["ada"], "ses", "", 0)
	wantCode(t, "one more", err, "too_many_links")
	if err := r.Revoke(t.Context(), r.people["ada"], last); err != nil {
		t.Fatal(err)
	}
	r.create(t) // in its place
	r.now = r.now.Add(2 * time.Hour)
	r.create(t) // those that ran out do not count
	if list, err := r.Links(t.Context(), "team", "ses"); err != nil || len(list) != 1 {
		t.Errorf("%d are open, %v", len(list), err)
	}
	if list, err := r.TeamLinks(t.Context(), "team"); err != nil || len(list) != 22 || list[0].CreatedAt != r.now.UnixMilli() {
		t.Errorf("%d are shown, %v", len(list), err)
	}
	r.now = r.now.Add(30 * 24 * time.Hour)
	if list, err := r.TeamLinks(t.Context(), "team"); err != nil || len(list) != 1 {
		t.Errorf("%d are shown a month later, %v", len(list), err)
	}
	if list, err := r.TeamLinks(t.Context(), "another"); err != nil || len(list) != 0 {
		t.Errorf("another team sees %v, %v", list, err)
	}
}

func TestALinkRunsOut(t *testing.T) {
	t.Parallel()
	r := newRig()
	l, token := r.create(t)
	r.now = r.now.Add(time.Hour - time.Millisecond)
	wantCode(t, "the last moment", r.Check(t.Context(), l.ID), "")
	r.now = r.now.Add(time.Millisecond)
	wantCode(t, "its end", r.Check(t.Context(), l.ID), "link_ended")
	_, err := r.Enter(t.Context(), token)
	wantCode(t, "opened after its end", err, "link_ended")
	if len(r.entries) != 0 {
		t.Errorf("that it ran out is in the audit: %+v", r.entries)
	}
}

func TestWhoRevokesALink(t *testing.T) {
	t.Parallel()
	r := newRig()
	l, token := r.create(t)
	for who, actor := range map[string]accounts.Actor{"another member": r.join("bob", accounts.Member), "a stranger": {User: accounts.User{ID: "eve"}}, "nobody": {}} {
		if err := r.Revoke(t.Context(), actor, l); err == nil {
			t.Errorf("%s may", who)
		}
	}
	wantCode(t, "after them", r.Check(t.Context(), l.ID), "")
	unowned := l
	unowned.CreatedBy = ""
	if err := r.Revoke(t.Context(), accounts.Actor{}, unowned); err == nil {
		t.Error("nobody is taken for its maker")
	}
	for range 2 { // again: it has ended
		if err := r.Revoke(t.Context(), r.people["ada"], l); err != nil {
			t.Errorf("its maker: %v", err)
		}
	}
	_, err := r.Enter(t.Context(), token)
	wantCode(t, "opened", err, "link_ended")
	if !slices.Equal(r.ended, []string{l.ID, l.ID}) {
		t.Errorf("let go: %v", r.ended)
	}
	second, _ := r.create(t)
	if err := r.Revoke(t.Context(), r.join("olga", accounts.Owner), second); err != nil || r.links[1].RevokedAt == 0 {
		t.Errorf("who manages the team: %v", err)
	}
}

// What a link stands on may go. Then it ends for good: it does not come back with that.
func TestALinkEndsWithWhatItStandsOn(t *testing.T) {
	t.Parallel()
	for why, change := range map[string]func(r *rig){
		"the session is gone":                          func(r *rig) { r.subject = nil },
		"the workspace became private":                 func(r *rig) { r.subject.Object.Private = true },
		"its maker is not here any more":               func(r *rig) { delete(r.people, "ada") },
		"its maker may not share the session any more": func(r *rig) { r.join("ada", accounts.Viewer) },
		"the team is suspended":                        func(r *rig) { r.people["ada"].Memberships[0].Team.SuspendedAt = 1 },
	} {
		r := newRig()
		subject := *r.subject
		l, token := r.create(t)
		change(r)
		wantCode(t, why, r.Check(t.Context(), l.ID), "link_ended")
		if len(r.entries) != 1 {
			t.Errorf("%s: in the audit is %+v", why, r.entries)
			continue
		}
		if e := r.entries[0]; e.Action != "watch_link.ended" || e.Chain != "team" || e.TargetID != l.ID || e.TargetName != "for Grace" || fmt.Sprint(e.Data) != fmt.Sprint(map[string]string{"reason": why, "session_id": "ses"}) {
			t.Errorf("%s: in the audit is %+v", why, e)
		}
		r.subject = &subject // and back
		r.join("ada", accounts.Member)
		_, err := r.Enter(t.Context(), token)
		wantCode(t, why+", and is back", err, "link_ended")
		if len(r.entries) != 1 || r.links[0].RevokedAt == 0 || r.links[0].Uses != 0 {
			t.Errorf("%s: %+v, audit %+v", why, r.links, r.entries)
		}
	}
	r := newRig()
	l, _ := r.create(t)
	a := r.people["ada"]
	a.User.SuspendedAt = 1
	r.people["ada"] = a
	wantCode(t, "a maker who is suspended", r.Check(t.Context(), l.ID), "link_ended")
}

// Where it cannot be seen whether a link holds, nobody is let in, and the link is not ended either.
func TestTroubleEndsNoLink(t *testing.T) {
	t.Parallel()
	r := newRig()
	l, token := r.create(t)
	r.broken = errors.New("the disk is gone")
	if _, err := r.Enter(t.Context(), token); !errors.Is(err, r.broken) {
		t.Errorf("Enter: %v", err)
	}
	if err := r.Check(t.Context(), l.ID); !errors.Is(err, r.broken) {
		t.Errorf("Check: %v", err)
	}
	if _, _, err := r.Create(t.Context(), r.people["ada"], "ses", "", 0); !errors.Is(err, r.broken) {
		t.Errorf("Create: %v", err)
	}
	r.broken = nil
	if _, err := r.Enter(t.Context(), token); err != nil || len(r.entries) != 0 {
		t.Errorf("afterwards: %v, audit %+v", err, r.entries)
	}
}
