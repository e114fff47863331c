package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/workspaces/overlap"
)

// Overlaps keeps which workspaces conflict with one another.
type Overlaps struct{ db *DB }

var _ overlap.Store = (*Overlaps)(nil)

// NewOverlaps returns the storage of overlaps in db.
func NewOverlaps(db *DB) *Overlaps { return &Overlaps{db} }

const overlapColumns = `team_id, project_id, first_id, second_id, first_tree, second_tree, files, at`

func scanOverlap(s Scanner, more func(*overlap.Overlap) []any) (overlap.Overlap, error) {
	var o overlap.Overlap
	var files string
	err := s.Scan(append([]any{&o.TeamID, &o.ProjectID, &o.FirstID, &o.SecondID, &o.FirstTree, &o.SecondTree, &files, &o.At}, more(&o)...)...)
	if err == nil {
		err = FromJSON(files, &o.Files)
	}
	return o, err
}

func (s *Overlaps) list(ctx context.Context, query string, args ...any) ([]overlap.Overlap, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, func(r Scanner) (overlap.Overlap, error) {
		return scanOverlap(r, func(*overlap.Overlap) []any { return nil })
	})
	return out, Wrap(err, "reading overlaps")
}

// ReplaceOverlaps makes list all there is of overlaps of the workspace.
func (s *Overlaps) ReplaceOverlaps(ctx context.Context, workspaceID string, list []overlap.Overlap) ([]string, error) {
	var changed []string
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		was, err := s.list(ctx, `SELECT `+overlapColumns+` FROM "overlaps" WHERE (first_id = ? OR second_id = ?) AND {team}`, workspaceID, workspaceID)
		if err != nil {
			return err
		}
		before := map[string][]overlap.File{}
		for _, o := range was {
			before[o.Other(workspaceID)] = o.Files
		}
		if _, err := s.db.Exec(ctx, `DELETE FROM "overlaps" WHERE (first_id = ? OR second_id = ?) AND {team}`, workspaceID, workspaceID); err != nil {
			return err
		}
		for _, o := range list {
			files, err := ToJSON(o.Files)
			if err != nil {
				return err
			}
			if _, err := s.db.Exec(ctx, `INSERT INTO "overlaps" (`+overlapColumns+`) VALUES ({team?},?,?,?,?,?,?,?)`, o.TeamID, o.ProjectID, o.FirstID, o.SecondID,
				o.FirstTree, o.SecondTree, files, o.At); err != nil {
				return err
			}
			other := o.Other(workspaceID)
			if had, ok := before[other]; !ok || !slices.Equal(had, o.Files) {
				changed = append(changed, other)
			}
			delete(before, other)
		}
		for other := range before {
			changed = append(changed, other)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("storing overlaps: %w", err)
	}
	if len(changed) > 0 {
		changed = append(changed, workspaceID)
	}
	return changed, nil
}

// Of workspaces that are put away nothing is shown, even before they are looked at again.
const overlapsShown = `SELECT o.team_id, o.project_id, o.first_id, o.second_id, o.first_tree, o.second_tree, o.files, o.at, a.num, a.name, b.num, b.name FROM "overlaps" o
	JOIN workspaces a ON a.id = o.first_id AND a.deleted_at = 0 AND a.archived_at = 0 JOIN workspaces b ON b.id = o.second_id AND b.deleted_at = 0 AND b.archived_at = 0`

// ProjectOverlaps returns the overlaps of a project's workspaces.
func (s *Overlaps) ProjectOverlaps(ctx context.Context, projectID string) ([]overlap.Overlap, error) {
	return s.shown(ctx, overlapsShown+` WHERE o.project_id = ? AND {team:o} AND {team:a} AND {team:b} ORDER BY a.num, b.num`, projectID)
}

// TeamOverlaps returns the overlaps of a team's workspaces, or those that any of the named ones has.
func (s *Overlaps) TeamOverlaps(ctx context.Context, teamID string, workspaceIDs ...string) ([]overlap.Overlap, error) {
	first, args := only("o.first_id", workspaceIDs)
	second, more := only("o.second_id", workspaceIDs)
	args = append(args, more...)
	these := ""
	if workspaceIDs != nil {
		these = ` AND (1 = 1` + first + ` OR 1 = 1` + second + `)`
	}
	return s.shown(ctx, overlapsShown+` WHERE {team:o} AND `+among("o.team_id", workspaceIDs)+` AND {team:a} AND {team:b}`+these+` ORDER BY a.num, b.num`, append([]any{teamID}, args...)...)
}

func (s *Overlaps) shown(ctx context.Context, query string, args ...any) ([]overlap.Overlap, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, func(r Scanner) (overlap.Overlap, error) {
		return scanOverlap(r, func(o *overlap.Overlap) []any {
			return []any{&o.First.Num, &o.First.Name, &o.Second.Num, &o.Second.Name}
		})
	})
	return out, Wrap(err, "reading overlaps")
}

// NewestTrees returns the tree of the newest snapshot of each workspace of a project.
func (s *Overlaps) NewestTrees(ctx context.Context, projectID string) (map[string]string, error) {
	rows, err := s.db.Query(ctx, `SELECT s.workspace_id, s.tree_id FROM snapshots s JOIN workspaces w ON w.id = s.workspace_id WHERE w.project_id = ? AND {team:w} AND `+workOf+`
		AND NOT EXISTS (SELECT 1 FROM snapshots n /* every team: of the same workspace */ WHERE n.workspace_id = s.workspace_id AND (n.at > s.at OR n.at = s.at AND n.id > s.id))`, projectID)
	out, err := Pairs[string, string](rows, err)
	return out, Wrap(err, "reading the newest snapshots")
}
