// Package page implements keyset paging: a limit, and an opaque cursor that names the last row seen.
package page

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Limits of a page's size.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// Page asks for at most Limit rows after Cursor. The zero Page asks for the first DefaultLimit rows.
type Page struct {
	Limit  int    // 0 = DefaultLimit; more than MaxLimit counts as MaxLimit
	Cursor string // "" = from the start; otherwise the next_cursor of an earlier response
}

// Key names a row in the order of a list: its time (or another number that orders it) and its id as the tie-breaker.
type Key struct {
	At int64
	ID string
}

// Size returns the number of rows to return: Limit within its bounds.
func (p Page) Size() int {
	switch {
	case p.Limit <= 0:
		return DefaultLimit
	case p.Limit > MaxLimit:
		return MaxLimit
	}
	return p.Limit
}

// Key returns the row the page starts after. ok is false for a page from the start.
func (p Page) Key() (k Key, ok bool, err error) {
	if p.Cursor == "" {
		return Key{}, false, nil
	}
	k, err = Parse(p.Cursor)
	return k, err == nil, err
}

// Encode returns the cursor that names k.
func Encode(k Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(k.At, 10) + ":" + k.ID))
}

// Parse reads a cursor made by Encode; fault.Invalid for anything else.
func Parse(cursor string) (Key, error) {
	bad := fault.New(fault.Invalid, "invalid_cursor", "The cursor is not one this list gave out. Ask again without a cursor.")
	if len(cursor) > 512 {
		return Key{}, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return Key{}, bad
	}
	at, id, ok := strings.Cut(string(b), ":")
	if !ok {
		return Key{}, bad
	}
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || strings.ContainsRune(id, 0) || strings.ToValidUTF8(id, "") != id {
		return Key{}, bad
	}
	return Key{At: n, ID: id}, nil
}

// Cut takes up to one row more than the page's size and returns the page and the cursor of the next, "" when there is none.
// Ask the store for Size()+1 rows.
func Cut[T any](p Page, rows []T, key func(T) Key) (items []T, next string) {
	n := p.Size()
	if len(rows) <= n {
		return rows, ""
	}
	rows = rows[:n]
	return rows, Encode(key(rows[n-1]))
}
