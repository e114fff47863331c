// Package placestore holds the SQL of what people may and want of places, and of why workspaces live where they do.
package placestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/store"
)

// Places stores it.
type Places struct{ db *store.DB }

// New returns the storage in db.
func New(db *store.DB) *Places { return &Places{db} }

// Person returns what a user may and wants in a team.
func (s *Places) Person(ctx context.Context, teamID, userID string) (choice.Person, error) {
	p, own, err := s.Said(ctx, teamID, userID)
	if err != nil {
		return p, err
	}
	if p.Trusted = true; own != nil {
		p.Trusted = *own
		return p, nil
	}
	if _, team, err := s.Said(ctx, teamID, ""); err != nil || team == nil {
		return p, err
	} else {
		p.Trusted = *team
	}
	return p, nil
}

// Said returns a person's own row, and the right as somebody gave it: nil = nobody did. userID "" is what holds for members without one.
func (s *Places) Said(ctx context.Context, teamID, userID string) (p choice.Person, trusted *bool, err error) {
	var right sql.NullBool
	err = s.db.QueryRow(ctx, `SELECT trusted, machine_first, executor, fallback, fallback_nano FROM place_people WHERE team_id = {team?} AND user_id = ?`, teamID, userID).
		Scan(&right, &p.MachineFirst, &p.Default, &p.Fallback, &p.FallbackNano)
	if errors.Is(err, store.ErrNotFound) {
		return p, nil, nil
	}
	if err != nil {
		return p, nil, fmt.Errorf("reading a person's places: %w", err)
	}
	if right.Valid {
		trusted = &right.Bool
	}
	return p, trusted, nil
}

// SetWishes stores what a person wants. The right stays as it is.
func (s *Places) SetWishes(ctx context.Context, teamID, userID string, p choice.Person) error {
	_, err := s.db.Exec(ctx, `INSERT INTO place_people (team_id, user_id, machine_first, executor, fallback, fallback_nano) VALUES ({team?}, ?, ?, ?, ?, ?)
		ON CONFLICT (team_id, user_id) DO UPDATE SET machine_first = excluded.machine_first, executor = excluded.executor, fallback = excluded.fallback, fallback_nano = excluded.fallback_nano`,
		teamID, userID, p.MachineFirst, string(p.Default), string(p.Fallback), p.FallbackNano)
	if err != nil {
		return fmt.Errorf("storing a person's places: %w", err)
	}
	return nil
}

// SetTrusted stores whether a person may use this server without isolation; nil = as the team says. userID "" is the team.
func (s *Places) SetTrusted(ctx context.Context, teamID, userID string, trusted *bool) error {
	_, err := s.db.Exec(ctx, `INSERT INTO place_people (team_id, user_id, trusted) VALUES ({team?}, ?, ?) ON CONFLICT (team_id, user_id) DO UPDATE SET trusted = excluded.trusted`,
		teamID, userID, trusted)
	if err != nil {
		return fmt.Errorf("storing a person's right: %w", err)
	}
	return nil
}

// Rights returns the right of everybody to whom somebody gave or took it, by user; "" is the team.
func (s *Places) Rights(ctx context.Context, teamID string) (map[string]bool, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id, trusted FROM place_people WHERE team_id = {team?} AND trusted IS NOT NULL`, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the rights of people: %w", err)
	}
	defer rows.Close()
	out := make(map[string]bool)
	for rows.Next() {
		var user string
		var trusted bool
		if err := rows.Scan(&user, &trusted); err != nil {
			return nil, err
		}
		out[user] = trusted
	}
	return out, rows.Err()
}

// KeepWhy stores why a workspace lives where it does.
func (s *Places) KeepWhy(ctx context.Context, teamID, workspaceID string, d choice.Decision, at int64) error {
	steps, err := json.Marshal(d.Steps)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO workspace_places (workspace_id, team_id, executor, steps, latency_ms, decided_at) VALUES (?, {team?}, ?, ?, ?, ?)
		ON CONFLICT (workspace_id) DO UPDATE SET executor = excluded.executor, steps = excluded.steps, latency_ms = excluded.latency_ms, decided_at = excluded.decided_at`,
		workspaceID, teamID, string(d.Kind), string(steps), d.LatencyMs, at)
	if err != nil {
		return fmt.Errorf("storing why a workspace lives where it does: %w", err)
	}
	return nil
}

// Why returns what KeepWhy stored; without steps when nothing was.
func (s *Places) Why(ctx context.Context, workspaceID string) (d choice.Decision, at int64, err error) {
	var steps string
	err = s.db.QueryRow(ctx, `SELECT executor, steps, latency_ms, decided_at FROM workspace_places WHERE workspace_id = ? AND {team}`, workspaceID).Scan(&d.Kind, &steps, &d.LatencyMs, &at)
	if errors.Is(err, store.ErrNotFound) {
		return d, 0, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(steps), &d.Steps)
	}
	if err != nil {
		return d, 0, fmt.Errorf("reading why a workspace lives where it does: %w", err)
	}
	return d, at, nil
}
