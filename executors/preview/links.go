package preview

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// Link lets somebody without a login see one port.
type Link struct {
	ID, TeamID, WorkspaceID string
	Port                    int
	Name                    string // for whom, in its maker's words
	CreatedBy               string // a user, on whose right it stands
	CreatedAt               int64  // ms UTC
	ExpiresAt               int64  // ms UTC
}

// LinkStore stores links until they expire or are revoked. It knows a token only by its hash.
type LinkStore interface {
	// AddPortLink stores a link unless its workspace or its maker would then have more than these many that have not expired: that is a
	// fault.Conflict "too_many_links".
	AddPortLink(ctx context.Context, l Link, hash string, ofWorkspace, ofMaker int) error
	// PortLinks are those of a workspace that have not expired at a time, newest first.
	PortLinks(ctx context.Context, workspaceID string, now int64) ([]Link, error)
	// PortLink returns the link with this id; a missing one is a fault.NotFound.
	PortLink(ctx context.Context, id string) (Link, error)
	// PortLinkByHash returns the link whose token has this hash.
	PortLinkByHash(ctx context.Context, hash string) (Link, error)
	// RemovePortLink removes a link; a missing one is no error.
	RemovePortLink(ctx context.Context, id string) error
}

// MaxLinkLife is how long a link may last.
const MaxLinkLife = 7 * 24 * time.Hour

const (
	mostLinks   = 20  // of one workspace
	mostLinksOf = 500 // that one user made
)

// Share makes a link to a port, and returns what to append to the port's address.
func (p *Proxy) Share(ctx context.Context, l Link) (Link, string, error) {
	l.ID, l.CreatedAt = id.New("pln"), p.cfg.Now().UnixMilli()
	token, err := p.token()
	if err != nil {
		return Link{}, "", err
	}
	if err := p.cfg.Links.AddPortLink(ctx, l, hashOf(token), mostLinks, mostLinksOf); err != nil {
		return Link{}, "", err
	}
	return l, sharedPath[1:] + "?link=" + token, nil
}

// Links are those of a workspace that have not ended, newest first.
func (p *Proxy) Links(ctx context.Context, workspaceID string) ([]Link, error) {
	return p.cfg.Links.PortLinks(ctx, workspaceID, p.cfg.Now().UnixMilli())
}

// Unshare ends a link, and what was opened by it.
func (p *Proxy) Unshare(ctx context.Context, linkID string) error {
	if err := p.cfg.Links.RemovePortLink(ctx, linkID); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.grants.order.Front(); e != nil; {
		next := e.Next()
		if k := e.Value.(kept); k.link == linkID {
			p.grants.drop(k.token)
		}
		e = next
	}
	return nil
}

// hashOf is what is stored of a token, which is too random to be guessed from it.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// byLink returns a grant for whoever has the token of a link: nil = there is none to this port.
func (p *Proxy) byLink(ctx context.Context, token string, at spot) *grant {
	l, err := p.cfg.Links.PortLinkByHash(tenant.All(ctx, "who comes by a link has no team"), hashOf(token))
	now := p.cfg.Now()
	ends := time.UnixMilli(l.ExpiresAt)
	if err != nil || !now.Before(ends) || l.WorkspaceID != at.workspaceID || l.Port != at.port {
		return nil
	}
	until := now.Add(grantLife)
	if ends.Before(until) {
		until = ends
	}
	return &grant{spot: at, who: p.cfg.Sharer(l.CreatedBy), owner: l.ID, until: until, path: "/", link: l.ID}
}

// ended reports whether a grant stands on a link that has ended.
func (p *Proxy) ended(ctx context.Context, g *grant) bool {
	if g.link == "" {
		return false
	}
	_, err := p.cfg.Links.PortLink(tenant.All(ctx, "who comes by a link has no team"), g.link)
	return fault.Is(err, fault.NotFound) || p.cfg.Now().After(g.until)
}
