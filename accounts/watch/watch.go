// Package watch manages the links with which somebody without a login watches one session: who made them, for how long, and whether
// they still apply. A link grants its maker's right to view the session, and nothing else. It ends when it expires, when
// somebody revokes it, when its maker may no longer share the session, and when the workspace becomes private.
package watch

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// Bounds of links.
const (
	MinMinutes     = 5
	MaxMinutes     = 7 * 24 * 60
	DefaultMinutes = 60

	maxOpen = 20                  // links of one session that have not ended
	maxName = 80                  // characters
	keepFor = 30 * 24 * time.Hour // how long a link that has ended is shown
)

// Link is a link. Only its holder knows the token.
type Link struct {
	ID, TeamID, WorkspaceID, SessionID string

	Name       string // for whom, in its maker's words
	CreatedBy  string
	CreatedAt  int64 // ms UTC
	ExpiresAt  int64
	RevokedAt  int64 // 0 = not revoked
	LastUsedAt int64 // when it was opened last, 0 = never
	Uses       int64 // how often it was opened
}

// Open reports whether the link has neither expired nor been revoked.
func (l Link) Open(now int64) bool { return l.RevokedAt == 0 && now < l.ExpiresAt }

// Store keeps links by the hash of their token. A missing row is a fault.NotFound.
type Store interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	InsertWatchLink(ctx context.Context, l Link, hash string) error
	WatchLink(ctx context.Context, id string) (Link, error)
	WatchLinkByHash(ctx context.Context, hash string) (Link, error)
	// WatchLinks are those of a session, or of a team where sessionID is "", that had not ended at a time, newest first.
	WatchLinks(ctx context.Context, teamID, sessionID string, notEndedAt int64) ([]Link, error)
	// UseWatchLink counts an opening.
	UseWatchLink(ctx context.Context, teamID, id string, at int64) error
	// RevokeWatchLink ends a link; fault.NotFound when it was revoked before.
	RevokeWatchLink(ctx context.Context, teamID, id string, at int64) error
}

// Subject is what a link shows.
type Subject struct {
	WorkspaceID string
	Object      accounts.Object // of the workspace
}

// Config is what a Service is made of. Store, Subject and Actor are required.
type Config struct {
	Store Store
	// Subject finds a session's workspace; fault.NotFound once either is gone.
	Subject func(ctx context.Context, sessionID string) (Subject, error)
	// Actor is a user with all memberships; fault.NotFound once the user is gone.
	Actor func(ctx context.Context, userID string) (accounts.Actor, error)
	Audit audit.Appender      // nil = nothing is recorded
	Ended func(linkID string) // called when a link was revoked, to disconnect its viewers; may be nil
	Now   func() time.Time    // nil = time.Now
	Rand  io.Reader           // nil = crypto/rand
}

// Service makes, checks and revokes watch links. Safe for concurrent use; it starts nothing.
type Service struct{ cfg Config }

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	return &Service{cfg}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

var (
	errEnded   = fault.New(fault.Gone, "link_ended", "This link no longer works: it expired or was revoked, or what it showed is gone. Ask the person who sent it for a new one.")
	errPrivate = fault.New(fault.Conflict, "workspace_private", "This workspace is private, so its sessions cannot be shared by a link. Show it to the team first.")
)

// Create makes a link for a session that runs out after so many minutes, 0 = DefaultMinutes, and returns its token, of which only
// a hash is kept.
func (s *Service) Create(ctx context.Context, actor accounts.Actor, sessionID, name string, minutes int) (Link, string, error) {
	sub, err := s.cfg.Subject(ctx, sessionID)
	if err != nil {
		return Link{}, "", err
	}
	if err := accounts.Can(actor, accounts.ShareSession, sub.Object); err != nil {
		return Link{}, "", err
	}
	if sub.Object.Private {
		return Link{}, "", errPrivate
	}
	minutes = cmp.Or(minutes, DefaultMinutes)
	if minutes < MinMinutes || minutes > MaxMinutes {
		return Link{}, "", fault.New(fault.Invalid, "invalid_minutes", "A link lasts from %d minutes to %d days.", MinMinutes, MaxMinutes/(24*60)).With("field", "minutes")
	}
	name = strings.TrimSpace(name)
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Link{}, "", fault.New(fault.Invalid, "invalid_name", "A link's name has %d characters at most, all of which can be seen.", maxName).With("field", "name")
	}
	token, err := s.newToken()
	if err != nil {
		return Link{}, "", err
	}
	now := s.now()
	l := Link{ID: id.New("wln"), TeamID: sub.Object.TeamID, WorkspaceID: sub.WorkspaceID, SessionID: sessionID, Name: name,
		CreatedBy: actor.User.ID, CreatedAt: now, ExpiresAt: now + int64(minutes)*time.Minute.Milliseconds()}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		open, err := s.cfg.Store.WatchLinks(ctx, l.TeamID, sessionID, now)
		if err != nil {
			return err
		}
		if len(open) >= maxOpen {
			return fault.New(fault.Conflict, "too_many_links", "This session has %d links. Revoke some that are no longer needed.", len(open))
		}
		return s.cfg.Store.InsertWatchLink(ctx, l, hashOf(token))
	})
	if err != nil {
		return Link{}, "", fmt.Errorf("making a link: %w", err)
	}
	return l, token, nil
}

// Link returns a link, also one that has ended.
func (s *Service) Link(ctx context.Context, linkID string) (Link, error) {
	return s.cfg.Store.WatchLink(ctx, linkID)
}

// Links are those of a session that have not ended, newest first.
func (s *Service) Links(ctx context.Context, teamID, sessionID string) ([]Link, error) {
	return s.cfg.Store.WatchLinks(ctx, teamID, sessionID, s.now())
}

// TeamLinks are a team's, newest first, those that ended in the last 30 days included.
func (s *Service) TeamLinks(ctx context.Context, teamID string) ([]Link, error) {
	return s.cfg.Store.WatchLinks(ctx, teamID, "", s.cfg.Now().Add(-keepFor).UnixMilli())
}

// Revoke ends a link permanently, and disconnects its viewers. A link that has ended is not an error. Its maker may, and who manages
// the team.
func (s *Service) Revoke(ctx context.Context, actor accounts.Actor, l Link) error {
	if l.CreatedBy != actor.User.ID || actor.User.ID == "" {
		if err := accounts.Can(actor, accounts.ManageTeam, accounts.InTeam(l.TeamID)); err != nil {
			return err
		}
	}
	if err := s.cfg.Store.RevokeWatchLink(ctx, l.TeamID, l.ID, s.now()); err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("revoking a link: %w", err)
	}
	s.ended(l.ID)
	return nil
}

func (s *Service) ended(linkID string) {
	if s.cfg.Ended != nil {
		s.cfg.Ended(linkID)
	}
}

// Enter opens the link with this token, and counts that.
func (s *Service) Enter(ctx context.Context, token string) (Link, error) {
	l, err := s.ByToken(ctx, token)
	if err != nil {
		return Link{}, err
	}
	now := s.now()
	if err := s.cfg.Store.UseWatchLink(tenant.In(ctx, l.TeamID), l.TeamID, l.ID, now); err != nil {
		return Link{}, fmt.Errorf("counting an opening of a link: %w", err)
	}
	l.LastUsedAt, l.Uses = now, l.Uses+1
	return l, nil
}

// ByToken returns the link with this token, if it still applies. The error does not reveal whether there ever was one.
func (s *Service) ByToken(ctx context.Context, token string) (Link, error) {
	if !wellFormed(token) {
		return Link{}, errEnded
	}
	ctx = tenant.All(ctx, "who has a link's token has no team")
	l, err := s.cfg.Store.WatchLinkByHash(ctx, hashOf(token))
	if fault.Is(err, fault.NotFound) {
		return Link{}, errEnded
	}
	if err != nil {
		return Link{}, fmt.Errorf("reading a link: %w", err)
	}
	return l, s.holds(ctx, l)
}

// Check says whether a link still holds: fault.Gone when it has ended.
func (s *Service) Check(ctx context.Context, linkID string) error {
	ctx = tenant.All(ctx, "who watches by a link has no team")
	l, err := s.cfg.Store.WatchLink(ctx, linkID)
	if fault.Is(err, fault.NotFound) {
		return errEnded
	}
	if err != nil {
		return fmt.Errorf("reading a link: %w", err)
	}
	return s.holds(ctx, l)
}

// holds asks what a link stands on. Where that is gone the link is revoked, so that it does not come back to life when its maker or
// the workspace's openness does.
func (s *Service) holds(ctx context.Context, l Link) error {
	if !l.Open(s.now()) {
		return errEnded
	}
	ctx = tenant.In(ctx, l.TeamID)
	why, err := s.lost(ctx, l)
	if err != nil {
		return err
	}
	if why == "" {
		return nil
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		err := s.cfg.Store.RevokeWatchLink(ctx, l.TeamID, l.ID, s.now())
		if fault.Is(err, fault.NotFound) { // somebody else did
			return nil
		}
		if err != nil {
			return err
		}
		return s.remember(ctx, l, why)
	})
	if err != nil {
		return fmt.Errorf("ending a link: %w", err)
	}
	return errEnded
}

// lost returns why a link that has not expired no longer applies, "" when it does.
func (s *Service) lost(ctx context.Context, l Link) (string, error) {
	sub, err := s.cfg.Subject(ctx, l.SessionID)
	switch {
	case fault.Is(err, fault.NotFound):
		return "the session is gone", nil
	case err != nil:
		return "", fmt.Errorf("reading the session of a link: %w", err)
	case sub.Object.Private:
		return "the workspace became private", nil
	}
	maker, err := s.cfg.Actor(ctx, l.CreatedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", fmt.Errorf("reading the maker of a link: %w", err)
	}
	if err != nil || maker.User.SuspendedAt != 0 {
		return "its maker is not here any more", nil
	}
	for _, m := range maker.Memberships {
		if m.Team.ID == l.TeamID && m.Team.SuspendedAt != 0 {
			return "the team is suspended", nil
		}
	}
	if accounts.Can(maker, accounts.ShareSession, sub.Object) != nil {
		return "its maker may not share the session any more", nil
	}
	return "", nil
}

// remember puts into the team's audit that a link was ended by what happened to what it stands on.
func (s *Service) remember(ctx context.Context, l Link, why string) error {
	if s.cfg.Audit == nil {
		return nil
	}
	ctx = audit.By(ctx, audit.Source{Kind: audit.BySystem, ActorName: "Parawork"}) // not whoever met it
	return s.cfg.Audit.Append(ctx, audit.Entry{Chain: l.TeamID, Action: "watch_link.ended", TargetKind: "watch_link", TargetID: l.ID, TargetName: l.Name,
		Data: map[string]string{"reason": why, "session_id": l.SessionID}})
}

// A token is "pw_watch_" and 32 random bytes: scanners of leaked secrets know it by its beginning.
const tokenPrefix = "pw_watch_"

const tokenLength = len(tokenPrefix) + 43

func (s *Service) newToken() (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(s.cfg.Rand, b); err != nil {
		return "", fmt.Errorf("making the token of a link: %w", err)
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b), nil
}

func wellFormed(token string) bool {
	if len(token) != tokenLength || !strings.HasPrefix(token, tokenPrefix) {
		return false
	}
	_, err := base64.RawURLEncoding.DecodeString(token[len(tokenPrefix):])
	return err == nil
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
