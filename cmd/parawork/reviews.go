package main

import (
	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/reviews"
	"github.com/parawork/parawork/store"
)

// buildReviews joins the room of reviews: it reads the files of workspaces and types to agents.
func (h *house) buildReviews(bus *events.Bus) {
	h.reviews = reviews.New(reviews.Config{Store: store.NewReviews(h.db), Trees: reviews.Files{Service: h.workspaces}, Workspaces: h.workspaces, Sessions: h.sessions,
		Accounts: h.accounts, Bus: bus, Events: h.publisher, Log: h.log.With("room", "reviews")})
	h.workspaces.ConnectReviews(h.reviews.Seen)
}
