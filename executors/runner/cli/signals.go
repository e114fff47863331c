package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// errSignal says that somebody wants the program to end.
var errSignal = errors.New("a signal")

// catcher waits for signals: the first ends the program cleanly, the second at once.
type catcher struct {
	second  context.Context
	release func()
}

// catch returns a context that the first signal ends.
func (p *Program) catch(ctx context.Context) (context.Context, *catcher) {
	signals := p.Signals
	stop := func() {}
	if signals == nil {
		own := make(chan os.Signal, 2)
		signal.Notify(own, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		signals, stop = own, func() { signal.Stop(own) }
	}
	ctx, first := context.WithCancelCause(ctx)
	second, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, then := range []func(){func() { first(errSignal) }, cancel} {
			select {
			case <-signals:
				then()
			case <-over:
				return
			}
		}
		<-over
	})
	return ctx, &catcher{second: second, release: func() {
		stop()
		close(over)
		wg.Wait()
		first(nil)
		cancel()
	}}
}
