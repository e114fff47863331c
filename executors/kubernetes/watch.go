package kubernetes

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// maxEnds bounds how many ends of pods are remembered.
const maxEnds = 1000

// watchPods keeps account of why pods of ours end: one that was drained or evicted is deleted, and the cluster then knows nothing of it any more.
// It runs until the executor is closed or another cluster is used.
func (e *Executor) watchPods(c *cluster, instance string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := c.address()
	if e.watching == at {
		return
	}
	e.watching = at
	e.work.Go(func() {
		for wait := time.Second; e.life.Err() == nil; {
			if c, err := e.cluster(e.life); err == nil {
				if c.address() != at {
					break
				}
				began := time.Now()
				_ = c.watch(e.life, url.Values{"labelSelector": {ours(instance)}}, "", func(_ string, p pod) bool {
					e.notePod(p)
					return false
				})
				if time.Since(began) > time.Minute {
					wait = time.Second
				}
			}
			_ = sleep(e.life, wait)
			wait = min(2*wait, 30*time.Second)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.watching == at {
			e.watching = ""
		}
	})
}

// notePod remembers why a pod ends, where it says so.
func (e *Executor) notePod(p pod) {
	words := endWords(p)
	if words == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ends) >= maxEnds {
		clear(e.ends)
	}
	e.ends[p.Metadata.Name] = words
}

// forget drops what is known of an earlier pod of that name.
func (e *Executor) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.ends, name)
}

// walls is what a pod tries: the API server is what every pod could reach.
const walls = `h=$KUBERNETES_SERVICE_HOST p=$KUBERNETES_SERVICE_PORT
[ -n "$h" ] || { echo unknown; exit 0; }
if command -v nc >/dev/null 2>&1; then nc -z -w 3 "$h" "$p" </dev/null >/dev/null 2>&1 && echo "$h:$p" || echo shut
elif command -v bash >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1; then timeout 3 bash -c "exec 3<>/dev/tcp/$h/$p" 2>/dev/null && echo "$h:$p" || echo shut
else echo unknown; fi
`

// tryWalls has the first pod of a cluster try, in the background, whether its network plugin enforces the policy: the API takes a policy that
// nothing enforces.
func (e *Executor) tryWalls(c *cluster, pod string) {
	c.mu.Lock()
	due := c.set.NetworkPolicy && !c.tried
	c.tried = true
	c.mu.Unlock()
	if !due {
		return
	}
	e.later(func(ctx context.Context) {
		st, err := e.exec(c, pod, "/bin/sh", "-c", walls)
		if err != nil {
			return
		}
		defer st.Close()
		defer context.AfterFunc(ctx, func() { st.cut(context.Cause(ctx)) })()
		answer, err := readLine(st)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case err != nil || answer == "unknown":
			c.tried = err == nil // the next pod tries where this one could not
		case answer != "shut":
			c.leaks = "the API server at " + line(strings.TrimSpace(answer), 60)
			e.cfg.Log.Warn("the cluster's network plugin does not enforce NetworkPolicy", "reached", answer)
		}
	})
}
