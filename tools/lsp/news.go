package lsp

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
)

// Changed is the type of the event that a language server of a workspace began, ended, or has other diagnostics. Its ID is the workspace's.
const Changed = "languages.changed"

// publishEvery is the least time between two events about changes: what happens meanwhile is folded into one.
const publishEvery = time.Second

// news are the workspaces whose servers changed since the last event about them.
type news struct {
	mu    sync.Mutex
	teams map[string]string // by workspace
	wake  chan struct{}
}

func newNews() news { return news{teams: map[string]string{}, wake: make(chan struct{}, 1)} }

func (n *news) add(p *executors.Place) {
	n.mu.Lock()
	n.teams[p.WorkspaceID] = p.TeamID
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// publish sends events about changes until ctx ends.
func (s *Service) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.news.wake:
		}
		s.news.mu.Lock()
		teams := maps.Clone(s.news.teams)
		clear(s.news.teams)
		s.news.mu.Unlock()
		for workspaceID, teamID := range teams {
			if s.cfg.Events != nil {
				s.cfg.Events.Publish(ctx, events.Event{Type: Changed, ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.cfg.Now().UnixMilli()})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.cfg.After(publishEvery):
		}
	}
}
