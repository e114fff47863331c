package app

import (
	"slices"
	"time"

	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/calllog"
	"github.com/parawork/parawork/tools/run"
)

// toolbox is what agents may call, with the services behind it.
type toolbox struct {
	tools     *tools.Set
	toolCalls *calllog.Service
}

// newToolbox makes the services below tools, and of their tools one Set.
func newToolbox(b *base, p *people, on *work) (_ *toolbox, err error) {
	t := &toolbox{}
	t.toolCalls = calllog.New(calllog.Config{Store: toolstore.NewCalls(b.db), Events: b.events, Log: b.logOf("tools")})
	t.tools, err = tools.New(tools.Config{
		Tools: slices.Concat(
			[]tools.Tool{run.New(on.commands, time.Now)},
		),
		Secrets: p.secrets, Recorder: t.toolCalls, Log: b.logOf("tools"),
	})
	return t, err
}
