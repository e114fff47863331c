package notify

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// Bounds of what is kept for each user.
const (
	MaxNotices = 500
	noticesFor = 90 * 24 * time.Hour
)

// More kinds of notices: push messages and webhooks do not have them.
const (
	Checks  = "checks"  // required checks failed on one's work
	Comment = "comment" // somebody reviewed one's work
	Machine = "machine" // one's own machine went offline
)

// Notice is an entry of a user's notification centre.
type Notice struct {
	ID, UserID, TeamID, TeamSlug string
	Kind                         string
	WorkspaceID, WorkspaceKey    string // "" = it is about no workspace
	WorkspaceName                string
	SessionID                    string
	Text                         string
	At, ReadAt                   int64 // ms UTC; ReadAt 0 = unread
}

// How long a workspace is muted.
const (
	MuteUntil    = "until"    // until a time
	MuteQuestion = "question" // until an agent asks
	MuteAlways   = "always"
)

// Mute is a user's wish not to be disturbed by a workspace.
type Mute struct {
	UserID, TeamID, WorkspaceID string
	Mode                        string
	Until                       int64 // ms UTC, of MuteUntil
}

// holds reports whether a mute silences an item of a kind now.
func (m Mute) holds(kind string, now int64) bool {
	switch m.Mode {
	case MuteUntil:
		return now < m.Until
	case MuteQuestion:
		return kind != Question
	}
	return m.Mode == MuteAlways
}

// Reader is a member of a team with their rules.
type Reader struct {
	UserID string
	Rules  Rules
}

// NoticeStore keeps notices and mutes.
type NoticeStore interface {
	// Readers returns the members of a team who may work.
	Readers(ctx context.Context, teamID string) ([]Reader, error)
	InsertNotices(ctx context.Context, all []Notice) error
	// Notices returns the newest of a user in the teams they are a member of now, and how many of those are unread.
	Notices(ctx context.Context, userID string, limit int) (items []Notice, unread int, err error)
	// ReadNotices marks some as read or unread; all with no IDs.
	ReadNotices(ctx context.Context, userID string, ids []string, readAt int64) error
	PutMute(ctx context.Context, m Mute) error
	DeleteMute(ctx context.Context, userID, workspaceID string) error
	// Mutes returns those of a user; MutesOf those of a workspace, by user.
	Mutes(ctx context.Context, userID string) ([]Mute, error)
	MutesOf(ctx context.Context, teamID, workspaceID string) (map[string]Mute, error)
	// PruneNotices deletes notices older than before, and all but the newest most of each user.
	PruneNotices(ctx context.Context, before int64, most int) error
}

// NoticesOf returns the newest notices of a user and how many are unread.
func (s *Service) NoticesOf(ctx context.Context, userID string, limit int) ([]Notice, int, error) {
	return s.cfg.Notices.Notices(ctx, userID, min(cmp.Or(limit, MaxNotices), MaxNotices))
}

// Read marks notices of a user as read, or as unread; all of them with no IDs.
func (s *Service) Read(ctx context.Context, userID string, ids []string, read bool) error {
	at := int64(0)
	if read {
		at = s.now()
	}
	return s.cfg.Notices.ReadNotices(ctx, userID, ids, at)
}

// MutesOf returns what a user muted.
func (s *Service) MutesOf(ctx context.Context, userID string) ([]Mute, error) {
	all, err := s.cfg.Notices.Mutes(ctx, userID)
	now := s.now()
	return slices.DeleteFunc(all, func(m Mute) bool { return m.Mode == MuteUntil && m.Until <= now }), err
}

// SetMute mutes a workspace for a user. Errors: invalid_mute.
func (s *Service) SetMute(ctx context.Context, m Mute) error {
	switch {
	case m.Mode == MuteUntil && m.Until <= s.now():
		return fault.New(fault.Invalid, "invalid_mute", "until must be a time in the future, in ms.").With("field", "until")
	case m.Mode != MuteUntil && m.Mode != MuteQuestion && m.Mode != MuteAlways:
		return fault.New(fault.Invalid, "invalid_mute", "mode must be until, question or always.").With("field", "mode")
	}
	if m.Mode != MuteUntil {
		m.Until = 0
	}
	err := s.cfg.Notices.PutMute(ctx, m)
	s.told(ctx, m.TeamID, err)
	return err
}

// Unmute ends that.
func (s *Service) Unmute(ctx context.Context, userID, teamID, workspaceID string) error {
	err := s.cfg.Notices.DeleteMute(ctx, userID, workspaceID)
	s.told(ctx, teamID, err)
	return err
}

// told says that notices or mutes of a team's members have changed.
func (s *Service) told(ctx context.Context, teamID string, err error) {
	if err == nil && s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "notices.updated", ID: teamID, TeamID: teamID, Version: s.now()})
	}
}

// notice adds an item to the notification centre of everybody whom it concerns, and returns who muted its workspace. An agent's question ends a
// mute that lasts until one.
func (s *Service) notice(ctx context.Context, it Item, readers []Reader, now int64) (muted map[string]bool, err error) {
	muted = map[string]bool{}
	if it.WorkspaceID != "" {
		mutes, err := s.cfg.Notices.MutesOf(ctx, it.TeamID, it.WorkspaceID)
		if err != nil {
			return nil, err
		}
		for user, m := range mutes {
			if muted[user] = m.holds(it.Kind, now); !muted[user] {
				if err := s.cfg.Notices.DeleteMute(ctx, user, it.WorkspaceID); err != nil {
					return nil, err
				}
			}
		}
	}
	var all []Notice
	for _, r := range readers {
		mine := slices.Contains(it.Owners, r.UserID)
		if it.OnlyFor != "" && it.OnlyFor != r.UserID || !mine && r.Rules[it.Kind] != All {
			continue
		}
		n := Notice{ID: it.ID, UserID: r.UserID, TeamID: it.TeamID, Kind: it.Kind, WorkspaceID: it.WorkspaceID, WorkspaceKey: it.WorkspaceKey, WorkspaceName: it.WorkspaceName,
			SessionID: it.SessionID, Text: cut(it.Sentence(), maxNotice), At: now}
		if muted[r.UserID] {
			n.ReadAt = now
		}
		all = append(all, n)
	}
	return muted, s.cfg.Notices.InsertNotices(ctx, all)
}

const maxNotice = 500 // bytes of a text
