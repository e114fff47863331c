package artifacts

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// Bounds of links.
const (
	MinLinkMinutes     = 5
	MaxLinkMinutes     = 30 * 24 * 60
	DefaultLinkMinutes = 24 * 60

	maxLinks    = 20 // of one artifact that have not ended
	maxLinkName = 80 // characters
)

// Link lets somebody without a login read one artifact. Only its holder knows the token.
type Link struct {
	ID, TeamID, ArtifactID string

	Name       string // for whom, in its maker's words
	CreatedBy  string
	CreatedAt  int64 // ms UTC
	ExpiresAt  int64
	RevokedAt  int64 // 0 = not revoked
	LastUsedAt int64 // 0 = never
	Uses       int64
}

// LinkStore keeps links by the hash of their token.
type LinkStore interface {
	// InsertArtifactLink stores a link unless the artifact has max links that have not ended: fault.Conflict.
	InsertArtifactLink(ctx context.Context, l Link, hash string, max int) error
	ArtifactLink(ctx context.Context, id string) (Link, error)
	ArtifactLinkByHash(ctx context.Context, hash string) (Link, error)
	// ArtifactLinks returns an artifact's links that had not ended at a time, newest first.
	ArtifactLinks(ctx context.Context, artifactID string, notEndedAt int64) ([]Link, error)
	UseArtifactLink(ctx context.Context, id string, at int64) error
	// RevokeArtifactLink ends a link; fault.NotFound when it was revoked before.
	RevokeArtifactLink(ctx context.Context, id string, at int64) error
}

var errLinkEnded = fault.New(fault.Gone, "link_ended", "This link no longer works: it expired or was revoked, or what it showed is gone. Ask the person who sent it for a new one.")

// CreateLink makes a link to an artifact that expires after so many minutes, 0 = DefaultLinkMinutes, and returns its token, of which
// only a hash is kept.
func (s *Service) CreateLink(ctx context.Context, actor accounts.Actor, a Artifact, name string, minutes int) (Link, string, error) {
	if a.Private {
		return Link{}, "", fault.New(fault.Conflict, "workspace_private", "This workspace is private, so its artifacts cannot be shared by a link. Show it to the team first.")
	}
	minutes = cmp.Or(minutes, DefaultLinkMinutes)
	if minutes < MinLinkMinutes || minutes > MaxLinkMinutes {
		return Link{}, "", fault.New(fault.Invalid, "invalid_minutes", "A link lasts from %d minutes to %d days.", MinLinkMinutes, MaxLinkMinutes/(24*60)).With("field", "minutes")
	}
	name = strings.TrimSpace(name)
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxLinkName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Link{}, "", fault.New(fault.Invalid, "invalid_name", "A link's name has at most %d characters, all of which can be seen.", maxLinkName).With("field", "name")
	}
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token := linkPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	now := s.now()
	l := Link{ID: id.New("aln"), TeamID: a.TeamID, ArtifactID: a.ID, Name: name, CreatedBy: actor.User.ID, CreatedAt: now, ExpiresAt: now + int64(minutes)*time.Minute.Milliseconds()}
	if err := s.cfg.Store.InsertArtifactLink(ctx, l, linkHash(token), maxLinks); err != nil {
		return Link{}, "", err
	}
	return l, token, nil
}

// Links returns an artifact's links that have not ended, newest first.
func (s *Service) Links(ctx context.Context, artifactID string) ([]Link, error) {
	return s.cfg.Store.ArtifactLinks(ctx, artifactID, s.now())
}

// Link returns a link, also one that has ended.
func (s *Service) Link(ctx context.Context, linkID string) (Link, error) {
	return s.cfg.Store.ArtifactLink(ctx, linkID)
}

// RevokeLink ends a link. One that has ended is not an error. Its maker may, and who manages the team.
func (s *Service) RevokeLink(ctx context.Context, actor accounts.Actor, l Link) error {
	if l.CreatedBy != actor.User.ID || actor.User.ID == "" {
		if err := accounts.Can(actor, accounts.ManageTeam, accounts.InTeam(l.TeamID)); err != nil {
			return err
		}
	}
	if err := s.cfg.Store.RevokeArtifactLink(ctx, l.ID, s.now()); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// Shared returns the artifact behind a link's token, and counts the opening. The error does not say whether there ever was such a link.
// A link holds as long as its maker may share: not once the workspace is private, or the maker has left.
func (s *Service) Shared(ctx context.Context, token string) (Artifact, Link, error) {
	if len(token) != len(linkPrefix)+43 || !strings.HasPrefix(token, linkPrefix) {
		return Artifact{}, Link{}, errLinkEnded
	}
	ctx = tenant.All(ctx, "who has a link's token has no team")
	l, err := s.cfg.Store.ArtifactLinkByHash(ctx, linkHash(token))
	if err != nil {
		return Artifact{}, Link{}, gone(err)
	}
	if l.RevokedAt != 0 || s.now() >= l.ExpiresAt {
		return Artifact{}, Link{}, errLinkEnded
	}
	ctx = tenant.In(ctx, l.TeamID)
	a, err := s.cfg.Store.Artifact(ctx, l.ArtifactID)
	if err != nil {
		return Artifact{}, Link{}, gone(err)
	}
	maker, err := s.cfg.Actor(ctx, l.CreatedBy)
	if err != nil {
		return Artifact{}, Link{}, gone(err)
	}
	for _, m := range maker.Memberships {
		if m.Team.ID == l.TeamID && m.Team.SuspendedAt != 0 {
			return Artifact{}, Link{}, errLinkEnded
		}
	}
	if a.Private || maker.User.SuspendedAt != 0 || accounts.Can(maker, accounts.ShareSession, accounts.Object{TeamID: a.TeamID, OwnerID: a.OwnerID}) != nil {
		return Artifact{}, Link{}, errLinkEnded
	}
	return a, l, s.cfg.Store.UseArtifactLink(ctx, l.ID, s.now())
}

// gone turns a missing row into the end of a link.
func gone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return errLinkEnded
	}
	return err
}

// A token begins with this: scanners of leaked secrets know it by its beginning.
const linkPrefix = "pw_artifact_"

func linkHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
