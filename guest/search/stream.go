package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
)

// errFull ends a stream that has sent as much as was asked for.
var errFull = errors.New("as much as was asked for has been found")

// Stream searches and calls fn with each file as soon as it was found, in no order, by one goroutine at a time. An error of fn ends the search. The
// answer has the totals without files.
func (s *Searcher) Stream(ctx context.Context, req guest.SearchRequest, fn func(guest.Found) error) (guest.SearchAnswer, error) {
	limit := req.Limit
	f, err := s.newFinder(req)
	if err != nil {
		return guest.SearchAnswer{}, err
	}
	if f.re == nil {
		f.req.Limit = min(max(limit, 1), guest.MaxListed)
	}
	left := f.req.Limit
	var failed error
	f.emit = func(one guest.Found) error {
		if left <= 0 {
			return errFull
		}
		if f.re == nil || !f.req.Lines {
			left--
		} else if left -= one.Matches; left < 0 {
			cutLines(&one, -left)
		}
		failed = fn(one)
		return failed
	}
	if err := f.search(ctx); failed != nil {
		return guest.SearchAnswer{}, failed
	} else if err != nil {
		return guest.SearchAnswer{}, err
	}
	f.answer.Items = []guest.Found{}
	return f.answer, nil
}

// cutLines drops the last matching lines of a file, and what follows the last that stays. The file's count of matches stays: it tells of them.
func cutLines(one *guest.Found, drop int) {
	keep := one.Matches - drop
	for i, l := range one.Lines {
		if !l.Match {
			continue
		}
		if keep--; keep < 0 {
			one.Lines = one.Lines[:i]
			return
		}
	}
}

// stream answers a request with a record for each file that was found, or for a number of them where they are found by name, and one at the end.
func (s *Searcher) stream(w http.ResponseWriter, r *http.Request, req guest.SearchRequest) error {
	begun := false
	send := func(p guest.SearchPiece) error {
		b, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if !begun {
			begun = true
			if err := offer.Begin(w); err != nil {
				return err
			}
		}
		if _, err = w.Write(guest.AppendRecord(nil, b)); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	var pending []guest.Found
	most := guest.MaxListPiece
	if req.Pattern != "" {
		most = 1 // someone waits for each
	}
	end, err := s.Stream(r.Context(), req, func(one guest.Found) error {
		if pending = append(pending, one); len(pending) < most {
			return nil
		}
		err := send(guest.SearchPiece{Items: pending})
		pending = pending[:0]
		return err
	})
	if err == nil && len(pending) > 0 {
		err = send(guest.SearchPiece{Items: pending})
	}
	if err == nil {
		err = send(guest.SearchPiece{End: &end})
	}
	if err != nil && begun {
		return offer.ErrCut
	}
	return err
}

// ignoredMs is how long git may take to say which names of a folder it ignores.
const ignoredMs = 3000

// Ignored says which of the names in a folder of the root git ignores: nothing where there is no repository, or git cannot say.
func (s *Searcher) Ignored(ctx context.Context, folder string, names []string) map[string]bool {
	repo, ok := s.repositoryOf(folder)
	if !ok || len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ignoredMs*time.Millisecond)
	defer cancel()
	var in bytes.Buffer
	for _, name := range names {
		in.WriteString("./" + below(repo, path.Join(folder, name)) + "\x00") // so that no name is taken for a pattern
	}
	out, _ := s.gitWith(ctx, repo, io.Reader(&in), "check-ignore", "-z", "--stdin") // fails where nothing is ignored
	ignored := make(map[string]bool)
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p != "" {
			ignored[path.Base(p)] = true
		}
	}
	return ignored
}
