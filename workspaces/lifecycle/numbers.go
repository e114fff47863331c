package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/parawork/parawork/internal/atomicfile"
)

// numbers is a file outside the database with the highest workspace number each team has had. A database restored from an old backup would
// reuse numbers that people, branches and pull requests refer to.
type numbers struct {
	mu   sync.Mutex
	path string
}

func (n *numbers) read() (map[string]int64, error) {
	b, err := os.ReadFile(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]int64{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the highest numbers of workspaces: %w", err)
	}
	highest := map[string]int64{}
	if err := json.Unmarshal(b, &highest); err != nil {
		return map[string]int64{}, nil // damaged: the next write recreates it
	}
	return highest, nil
}

// raise records assigned numbers; it ignores lower ones than those recorded.
func (n *numbers) raise(given map[string]int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	highest, err := n.read()
	if err != nil {
		return err
	}
	before := maps.Clone(highest)
	for team, num := range given {
		highest[team] = max(highest[team], num)
	}
	if maps.Equal(before, highest) {
		return nil
	}
	b, err := json.Marshal(highest)
	if err != nil {
		return err
	}
	return atomicfile.WriteDurable(n.path, append(b, '\n'), 0o600)
}

// KeepNumbers records the assigned numbers outside the database.
func (s *Service) KeepNumbers(ctx context.Context) error {
	given, err := s.store.NumbersGiven(ctx)
	if err != nil {
		return err
	}
	return s.numbers.raise(given)
}

// NumbersForgotten returns the teams whose numbers the database would reuse, each with the highest it has had.
func (s *Service) NumbersForgotten(ctx context.Context) (map[string]int64, error) {
	given, err := s.store.NumbersGiven(ctx)
	if err != nil {
		return nil, err
	}
	s.numbers.mu.Lock()
	highest, err := s.numbers.read()
	s.numbers.mu.Unlock()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(highest, func(team string, num int64) bool {
		has, known := given[team]
		return !known || num <= has
	})
	return highest, nil
}

// SkipNumbers has the database assign only new numbers. It returns for how many teams that was needed.
func (s *Service) SkipNumbers(ctx context.Context) (int, error) {
	forgotten, err := s.NumbersForgotten(ctx)
	if err != nil {
		return 0, err
	}
	for _, team := range slices.Sorted(maps.Keys(forgotten)) {
		if err := s.store.SkipNumbers(ctx, team, forgotten[team]); err != nil {
			return 0, err
		}
	}
	return len(forgotten), nil
}
