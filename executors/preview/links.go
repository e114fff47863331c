package preview

import (
	"cmp"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Link lets somebody without a login see one port. It lives in memory: a restart of the server ends it.
type Link struct {
	ID, WorkspaceID string
	Port            int
	Name            string // for whom, in its maker's words
	CreatedBy       string // a user
	CreatedAt       time.Time
	ExpiresAt       time.Time
}

// MaxLinkLife is how long a link may last.
const MaxLinkLife = 7 * 24 * time.Hour

const (
	mostLinks   = 20    // of one workspace
	mostLinksOf = 500   // that one user made
	mostLinksIn = 5_000 // in all
)

// shared is a link with the right behind it.
type shared struct {
	Link
	who any
}

// Share makes a link to a port, and returns what to append to the port's address. who has the right behind it: Config.Check and Config.Dial get it.
func (p *Proxy) Share(l Link, who any) (Link, string, error) {
	l.ID, l.CreatedAt = id.New("pln"), p.cfg.Now()
	token, err := p.token()
	if err != nil {
		return Link{}, "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropEnded()
	open, made := 0, 0
	for _, s := range p.links {
		if s.WorkspaceID == l.WorkspaceID {
			open++
		}
		if s.CreatedBy == l.CreatedBy {
			made++
		}
	}
	if made >= mostLinksOf || len(p.links) >= mostLinksIn {
		return Link{}, "", fault.New(fault.Conflict, "too_many_links", "There are too many links to ports: you have %d. Revoke some that are no longer needed, or wait until some end.", made)
	}
	if open >= mostLinks {
		return Link{}, "", fault.New(fault.Conflict, "too_many_links", "This workspace has %d links to ports. Revoke some that are no longer needed.", open)
	}
	p.links[token] = shared{l, who}
	return l, sharedPath[1:] + "?link=" + token, nil
}

// Links are those of a workspace that have not ended, newest first.
func (p *Proxy) Links(workspaceID string) []Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropEnded()
	list := []Link{}
	for _, s := range p.links {
		if s.WorkspaceID == workspaceID {
			list = append(list, s.Link)
		}
	}
	slices.SortFunc(list, func(a, b Link) int { return cmp.Compare(b.ID, a.ID) })
	return list
}

// Unshare ends a link, and what was opened by it.
func (p *Proxy) Unshare(linkID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, s := range p.links {
		if s.ID == linkID {
			delete(p.links, token)
		}
	}
	for e := p.grants.order.Front(); e != nil; {
		next := e.Next()
		if k := e.Value.(kept); k.link == linkID {
			p.grants.drop(k.token)
		}
		e = next
	}
}

// dropEnded forgets links that have expired. p.mu is held.
func (p *Proxy) dropEnded() {
	now := p.cfg.Now()
	for token, s := range p.links {
		if !now.Before(s.ExpiresAt) {
			delete(p.links, token)
		}
	}
}

// byLink returns a grant for whoever has the token of a link: nil = there is none to this port.
func (p *Proxy) byLink(token string, at spot) *grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropEnded()
	s, ok := p.links[token]
	if !ok || s.WorkspaceID != at.workspaceID || s.Port != at.port {
		return nil
	}
	until := p.cfg.Now().Add(grantLife)
	if s.ExpiresAt.Before(until) {
		until = s.ExpiresAt
	}
	return &grant{spot: at, who: s.who, owner: s.ID, until: until, path: "/", link: s.ID}
}

// ended reports whether a grant stands on a link that has ended.
func (p *Proxy) ended(g *grant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.link == "" {
		return false
	}
	p.dropEnded()
	for _, s := range p.links {
		if s.ID == g.link {
			return false
		}
	}
	return true
}
