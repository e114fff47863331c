package kubetest

import (
	"cmp"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Fault is something that goes wrong with a request.
type Fault struct {
	Match      string        // "POST pods", "GET pods/exec": a method and a resource, each or both "*"; "" = every request
	Times      int           // how often; 0 = once, < 0 = until Heal
	Skip       int           // so many that match go well first
	Status     int           // what is answered; 0 with Lose or Delay
	Reason     string        // "" = what goes with the status
	Message    string        // "" = a short one
	RetryAfter int           // s; 0 = nothing is said
	Plain      bool          // the answer is a page of a proxy before the server, and no status
	Lose       bool          // the request is done and its answer lost
	Delay      time.Duration // the request waits so long before anything else
}

// Fail has requests go wrong from now on. Faults strike in the order they were asked for, one a request.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = cmp.Or(f.Times, 1)
	s.faults = append(s.faults, &f)
}

// LoseCreateAnswers makes the next n creations of pods succeed without an answer.
func (s *Server) LoseCreateAnswers(n int) { s.Fail(Fault{Match: "POST pods", Times: n, Lose: true}) }

// Heal ends all faults, cuts, slowness and refusals.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.slow, s.cutEvery, s.noSockets = nil, 0, 0, false
	clear(s.forbidden)
}

// Slow has every request wait first.
func (s *Server) Slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = d
}

// Forbid takes a right away, as "create pods", "create pods/exec", or "* events". Heal gives it back.
func (s *Server) Forbid(rights ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rights {
		s.forbidden[r] = true
	}
}

// RevokeToken has the token be known no more.
func (s *Server) RevokeToken() { s.SetToken("revoked-" + randomName(12)) }

// SetToken gives the user another token.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// SetQuota limits the namespace, as {"pods": "2", "limits.memory": "4Gi"}; nil = not at all.
func (s *Server) SetQuota(hard map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotas = maps.Clone(hard)
	k := key{"resourcequotas", Namespace, quotaName}
	s.remove(k)
	if hard != nil {
		s.put(resourceOf("resourcequotas"), Namespace, quotaName, object{"kind": "ResourceQuota", "apiVersion": "v1",
			"metadata": object{"name": quotaName, "namespace": Namespace}, "spec": object{"hard": hard}, "status": object{"hard": hard}})
	}
}

// AddImage gives the node an image.
func (s *Server) AddImage(name string, i Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[name] = i
}

// RemoveImage takes an image from the node, and from wherever it came.
func (s *Server) RemoveImage(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, name)
}

// Cordon has the scheduler leave a node alone, or use it again.
func (s *Server) Cordon(node string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cordoned[node] = yes
	s.change(key{"nodes", "", node}, func(o object) {
		if sub(o, "spec")["unschedulable"] = yes; !yes {
			delete(sub(o, "spec"), "unschedulable")
		}
	})
}

// Drain cordons a node and has all its pods evicted.
func (s *Server) Drain(node string) {
	s.Cordon(node, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.podsOf(node) {
		s.evictPod(p.key, nil)
	}
}

// podsOf are the pods of a node. The caller holds mu.
func (s *Server) podsOf(node string) []*podRun {
	var out []*podRun
	for _, p := range s.pods {
		if p.node == node && p.stored() != nil {
			out = append(out, p)
		}
	}
	return out
}

// LoseNode has a node be reached no more: what runs there ends, and nobody hears of it. Pods that are deleted stay until that is forced.
func (s *Server) LoseNode(node string) {
	s.mu.Lock()
	s.lost[node] = true
	var all []*podRun
	for _, p := range s.podsOf(node) {
		all = append(all, p)
		s.change(p.key, func(o object) {
			conds, _ := sub(o, "status")["conditions"].([]any)
			for _, c := range conds {
				if c := c.(object); c["type"] == "Ready" {
					c["status"], c["reason"], c["message"] = "False", "NodeNotReady", ""
				}
			}
		})
	}
	s.change(key{"nodes", "", node}, func(o object) {
		sub(o, "status")["conditions"] = []any{object{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}}
	})
	s.mu.Unlock()
	s.cutStreams()
	for _, p := range all {
		p.end(0)
	}
}

// find returns a pod of the namespace by its name. The caller holds mu.
func (s *Server) find(name string) *podRun { return s.pods[key{"pods", Namespace, name}] }

// Evict ends a pod as a kubelet whose node runs out of something does.
func (s *Server) Evict(pod, message string) {
	s.mu.Lock()
	p := s.find(pod)
	if p == nil {
		s.mu.Unlock()
		return
	}
	p.reason, p.message = "Evicted", cmp.Or(message, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ")
	p.condition("DisruptionTarget", "True", "TerminationByKubelet", p.message)
	p.event("Warning", "Evicted", "kubelet", p.message)
	for _, c := range p.mains {
		p.event("Normal", "Killing", "kubelet", "Stopping container "+c.spec.Name)
	}
	s.mu.Unlock()
	p.end(0)
	<-p.done
}

// OOMKill ends a container for want of memory, as the kernel does.
func (s *Server) OOMKill(pod string) {
	s.mu.Lock()
	p := s.find(pod)
	var b *box
	if p != nil && p.mains[0].box != nil {
		b, p.mains[0].reason = p.mains[0].box, "OOMKilled"
	}
	s.mu.Unlock()
	if b != nil {
		b.kill()
		<-b.done
	}
}

// Kill ends the first process of a pod's container.
func (s *Server) Kill(pod string) {
	s.mu.Lock()
	p := s.find(pod)
	var b *box
	if p != nil {
		b = p.mains[0].box
	}
	s.mu.Unlock()
	if b != nil {
		b.kill()
		<-b.done
	}
}

// RestartAPI ends the API server: every connection is cut, and nobody answers for a time. Pods run on. Watches have to begin anew.
func (s *Server) RestartAPI(down time.Duration) error {
	s.mu.Lock()
	srv := s.http
	s.mu.Unlock()
	_ = srv.Close()
	s.cutStreams()
	s.Expire()
	time.Sleep(down) // that is what is asked for
	for {
		l, err := net.Listen("tcp", s.addr)
		if err == nil {
			s.serve(l)
			return nil
		}
		select { // another process may have the port for a moment
		case <-s.stop:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// CutStreams cuts every exec that is open.
func (s *Server) CutStreams() { s.cutStreams() }

// CutStreamsEvery has every exec be cut when it has been open for so long; 0 = none.
func (s *Server) CutStreamsEvery(d time.Duration) {
	s.mu.Lock()
	s.cutEvery = d
	s.mu.Unlock()
	if d > 0 {
		s.cutStreams()
	}
}

// NoWebSockets has the server, or a proxy before it, know SPDY alone.
func (s *Server) NoWebSockets(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noSockets = yes
}

// Expire forgets what changed until now: watches and pages of lists that began before are refused as too old.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = nil
	s.floor = s.rv
	close(s.changed)
	s.changed = make(chan struct{})
}

// Pods are the names of the pods of the namespace, sorted.
func (s *Server) Pods() []string { return s.names("pods") }

// Claims are the names of the claims of the namespace, sorted.
func (s *Server) Claims() []string { return s.names("persistentvolumeclaims") }

func (s *Server) names(plural string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for k := range s.store {
		if k.plural == plural && k.ns == Namespace {
			out = append(out, k.name)
		}
	}
	slices.Sort(out)
	return out
}

// Streams is how many execs are open.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Requests are those the server was sent, the latest last.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// hits reports whether a fault is one of a request.
func (f *Fault) hits(c *call) bool {
	if f.Match == "" {
		return true
	}
	method, what, _ := strings.Cut(f.Match, " ")
	if method != "*" && method != c.Method {
		return false
	}
	parts := strings.Split(strings.Trim(c.URL.Path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = parts[i+2:]
	} else {
		parts = parts[min(len(parts), 2):]
	}
	if len(parts) == 0 {
		return what == "*"
	}
	is := parts[0]
	if len(parts) > 2 {
		is += "/" + parts[2]
	}
	ok, err := path.Match(what, is)
	return err == nil && ok
}

// struck has faults, and slowness, strike a request.
func (s *Server) struck(c *call) error {
	s.mu.Lock()
	wait := s.slow
	var hit *Fault
	for i, f := range s.faults {
		if !f.hits(c) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		one := *f
		hit = &one
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		break
	}
	s.mu.Unlock()
	c.fault = hit
	if hit != nil {
		wait += hit.Delay
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.Context().Done():
		case <-s.stop:
		}
	}
	if hit == nil || hit.Status == 0 {
		return nil
	}
	if hit.Plain {
		c.w.Header().Set("Content-Type", "text/html")
		c.w.WriteHeader(hit.Status)
		_, _ = c.w.Write([]byte("<html><body>" + http.StatusText(hit.Status) + "</body></html>"))
		return errAnswered
	}
	st := refuse(hit.Status, "%s", cmp.Or(hit.Message, messages[hit.Status], http.StatusText(hit.Status)))
	st.Reason, st.Retry = cmp.Or(hit.Reason, st.Reason), hit.RetryAfter
	return st
}

// errAnswered says that a request was answered already.
var errAnswered = &Status{Code: http.StatusOK}

// messages of the real one, by status.
var messages = map[int]string{
	http.StatusUnauthorized: "Unauthorized", http.StatusTooManyRequests: "the server has received too many requests and has asked us to try again later",
	http.StatusServiceUnavailable: "the server is currently unable to handle the request", http.StatusGatewayTimeout: "the server was unable to return a response in the time allotted",
	http.StatusInternalServerError: "Internal error occurred: etcdserver: request timed out",
}
