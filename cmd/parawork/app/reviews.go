package app

import (
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/sessions/reviewqueue"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/reviews"
)

// buildReviews joins the reviews to the files they are about and to the agents they are sent to.
func (h *App) buildReviews(bus *events.Bus) {
	h.reviews = reviews.New(reviews.Config{Store: store.NewReviews(h.db), Trees: reviews.Files{Service: h.workspaces}, Workspaces: h.workspaces, Sessions: reviewqueue.New(h.sessions),
		Accounts: h.directory, Bus: bus, Events: h.publisher, Log: h.log.With("room", "reviews")})
	h.workspaces.ConnectReviews(h.reviews.Seen)
}
