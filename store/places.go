package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/fault"
)

var _ choice.Policies = (*Executors)(nil)

// PlacePolicy returns a team's rules about executors.
func (s *Executors) PlacePolicy(ctx context.Context, teamID string) (choice.Policy, error) {
	var p choice.Policy
	err := s.db.QueryRow(ctx, `SELECT weakest_boundary, default_executor, NOT allow_user_choice FROM teams WHERE id = {team?}`, teamID).Scan(&p.Weakest, &p.Default, &p.NoChoice)
	return p, err
}

// SetPlacePolicy stores a team's rules about executors.
func (s *Executors) SetPlacePolicy(ctx context.Context, teamID string, p choice.Policy) error {
	return changed(s.db.Exec(ctx, `UPDATE teams SET weakest_boundary = ?, default_executor = ?, allow_user_choice = ? WHERE id = {team?}`, string(p.Weakest), string(p.Default), !p.NoChoice, teamID))
}

// TeamGroup returns the number of a team's group on this machine: the next one when it has none yet. Rows are never removed, so that
// no number is given twice.
func (s *Executors) TeamGroup(ctx context.Context, teamID string) (int64, error) {
	var number int64
	var err error
	for range boxUserTries {
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			err := s.db.QueryRow(ctx, `SELECT number FROM team_groups WHERE team_id = {team?}`, teamID).Scan(&number)
			if !errors.Is(err, ErrNotFound) {
				return err
			}
			if err := s.db.QueryRow(ctx, `/* every team: no number is given twice */ SELECT COALESCE(MAX(number), 0) + 1 FROM team_groups`).Scan(&number); err != nil {
				return err
			}
			_, err = s.db.Exec(ctx, `INSERT INTO team_groups (number, team_id) VALUES (?, {team?})`, number, teamID)
			return err
		})
		if !fault.Is(err, fault.Conflict) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("giving team %s a group: %w", teamID, err)
	}
	return number, nil
}
