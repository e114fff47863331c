package app

import (
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/server"
	"github.com/parawork/parawork/store"
)

// buildWatch makes the room of links with which sessions are watched.
func (h *App) buildWatch() {
	h.watch = watch.New(watch.Config{Store: store.NewWatch(h.db), Subject: server.Watched(h.sessions, h.workspaces), Actor: h.directory.Actor, Audit: h.audit,
		Ended: func(linkID string) { h.server.Recheck(linkID) }})
}
