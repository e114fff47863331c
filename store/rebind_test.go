package store_test

import (
	"testing"

	"github.com/parawork/parawork/store"
)

func TestRebindNumbersMarksOnly(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"SELECT 1":                        "SELECT 1",
		"a = ? AND b IN (?, ?)":           "a = $1 AND b IN ($2, $3)",
		"a = '?' AND b = ?":               "a = '?' AND b = $1",
		"a = 'it''s ?' AND b = ?":         "a = 'it''s ?' AND b = $1",
		`"odd?name" = ? AND 'x"?' = ?`:    `"odd?name" = $1 AND 'x"?' = $2`,
		"a = ? -- why?\nAND b = ?":        "a = $1 -- why?\nAND b = $2",
		"a = ? /* what? 'no */ AND b = ?": "a = $1 /* what? 'no */ AND b = $2",
		"a = ? -- the end?":               "a = $1 -- the end?",
		"unclosed '? ":                    "unclosed '? ",
		"unclosed /* ? ":                  "unclosed /* ? ",
		"x - ? / ? * ?":                   "x - $1 / $2 * $3",
		"(?,?,?,?,?,?,?,?,?,?,?)":         "($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
		"é = ? AND '日本?' = ?":             "é = $1 AND '日本?' = $2",
	} {
		if got := store.Rebind(in); got != want {
			t.Errorf("Rebind(%q) = %q, want %q", in, got, want)
		}
	}
}
