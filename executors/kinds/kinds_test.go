package kinds_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/kinds"
)

// Each kind has its page, and the page says what the kind is called in config.json.
func TestEachKindHasItsPage(t *testing.T) {
	t.Parallel()
	for _, d := range kinds.All() {
		text, err := os.ReadFile(filepath.Join("../..", d.Docs))
		if err != nil {
			t.Errorf("%s: %v", d.Kind, err)
			continue
		}
		if !strings.Contains(string(text), string(d.Kind)) {
			t.Errorf("%s: %s does not name it", d.Kind, d.Docs)
		}
	}
}
