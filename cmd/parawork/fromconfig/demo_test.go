package fromconfig

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// A public demo starts only where strangers are kept in.
func TestWhereADemoMayRun(t *testing.T) {
	t.Parallel()
	for executor, want := range map[string]string{"docker": "", "bubblewrap": "", "local": "does not isolate", "runner": "members' own machines", "auto": "not part", "": "not part"} {
		cfg := config.Default(agents.Programs(), Kinds(kinds.All()))
		cfg.Demo.Executor = executor
		if err := CheckDemo(cfg, kinds.All()); err != nil {
			t.Errorf("%q is refused though the demo is off: %v", executor, err)
		}
		cfg.Demo.Enabled = true
		err := CheckDemo(cfg, kinds.All())
		if want == "" && err != nil || want != "" && (fault.CodeOf(err) != "demo_place_unsafe" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "demo.enabled")) {
			t.Errorf("%q: %v, want %q", executor, err, want)
		}
	}
}
