package history

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/redact"
)

// A value is masked on a screen although it ends in the next row.
func TestRowsOfAScreenAreMasked(t *testing.T) {
	t.Parallel()
	hide := redact.New("secret-value-1").Text
	got := maskRows([]string{"key: secret-", "value-1 end", "", "secret-", "value-1", "\u00e9\u00e9 secret-value-1"}, 12, hide)
	want := []string{"key: *******", "******* end", "", "secret-", "value-1", "\u00e9\u00e9 **************"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
