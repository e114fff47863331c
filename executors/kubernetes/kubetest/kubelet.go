package kubetest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// podRun is a pod from its creation to its end. The server's mu guards it.
type podRun struct {
	s        *Server
	key      key
	uid      string
	spec     pod
	ip       string
	node     string
	started  string
	phase    string
	reason   string // of its end: Evicted
	message  string
	conds    []any
	inits    []*containerRun
	mains    []*containerRun
	stopping chan struct{} // closed when it is to end
	stopped  bool
	over     bool          // nothing of it runs, or ever will
	killed   bool          // without asking
	done     chan struct{} // closed when nothing of it runs
}

// containerRun is what is known of a container.
type containerRun struct {
	spec     container
	box      *box
	state    object
	last     object
	reason   string // of its next end: OOMKilled
	restarts int
	ready    bool
}

// retryIn is how soon the scheduler and the kubelet look again; the real ones take longer.
const retryIn = 50 * time.Millisecond

// launch takes on a pod that was just made. The caller holds mu.
func (s *Server) launch(k key) {
	o := s.store[k].obj
	p := &podRun{s: s, key: k, uid: metaOf(o)["uid"].(string), spec: as[pod](o), phase: "Pending", stopping: make(chan struct{}), done: make(chan struct{})}
	for _, c := range p.spec.Spec.InitContainers {
		p.inits = append(p.inits, &containerRun{spec: c})
	}
	for _, c := range p.spec.Spec.Containers {
		p.mains = append(p.mains, &containerRun{spec: c})
	}
	s.pods[k] = p
	s.wg.Go(p.run)
}

// podDir is where a pod's files are.
func (p *podRun) dir() string { return filepath.Join(p.s.dir, "pods", p.uid) }

// run is the whole life of a pod.
func (p *podRun) run() {
	defer close(p.done)
	if p.schedule() {
		p.live()
	}
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := p.stored(); o != nil && metaOf(o)["deletionTimestamp"] != nil && !s.lost[p.node] {
		s.remove(p.key)
	}
	if p.over = true; p.stored() == nil {
		p.clear()
	}
	s.finishClaims(p.key.ns)
}

// clear removes all of a pod that runs no more and is not there any more: what it said can be read until then. The caller holds mu.
func (p *podRun) clear() {
	if p.s.pods[p.key] == p {
		delete(p.s.pods, p.key)
	}
	_ = os.RemoveAll(p.dir())
}

// stored is the pod's object, nil when it is gone. The caller holds mu.
func (p *podRun) stored() object {
	o := p.s.store[p.key]
	if o == nil || metaOf(o.obj)["uid"] != p.uid {
		return nil
	}
	return o.obj
}

// wait waits a moment; false = the pod is to end.
func (p *podRun) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.stopping:
		return false
	}
}

// event writes one about the pod. The caller holds mu.
func (p *podRun) event(kind, reason, component, message string) {
	if o := p.stored(); o != nil {
		p.s.event(o, kind, reason, component, message)
	}
}

// schedule finds a node for the pod; false = it is to end before there is one.
func (p *podRun) schedule() bool {
	for {
		p.s.mu.Lock()
		node, why := p.s.place(p)
		if node != "" {
			p.node = node
			p.s.change(p.key, func(o object) { sub(o, "spec")["nodeName"] = node })
			p.condition("PodScheduled", "True", "", "")
			p.sync()
			p.event("Normal", "Scheduled", "default-scheduler", fmt.Sprintf("Successfully assigned %s/%s to %s", p.key.ns, p.key.name, node))
			p.s.mu.Unlock()
			return true
		}
		if p.condition("PodScheduled", "False", "Unschedulable", why) {
			p.sync()
			p.event("Warning", "FailedScheduling", "default-scheduler", why)
		}
		p.s.mu.Unlock()
		if !p.wait(retryIn) {
			return false
		}
	}
}

// place chooses a node, or says why there is none. The caller holds mu.
func (s *Server) place(p *podRun) (node, why string) {
	total := len(s.cfg.Nodes)
	for _, v := range p.spec.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		c := s.store[key{"persistentvolumeclaims", p.key.ns, name}]
		if c == nil {
			return "", fmt.Sprintf("0/%d nodes are available: persistentvolumeclaim %q not found. preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.", total, name, total, total)
		}
		if status, _ := c.obj["status"].(object); status["phase"] != "Bound" && !s.bindFor(c) {
			return "", fmt.Sprintf("0/%d nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.", total, total, total)
		}
	}
	counts := map[string]int{}
	for _, n := range s.cfg.Nodes {
		no := func(text string) { counts[text]++ }
		obj := s.store[key{"nodes", "", n.Name}].obj
		labels, _ := metaOf(obj)["labels"].(object)
		fits := true
		for k, v := range p.spec.Spec.NodeSelector {
			fits = fits && labels[k] == v
		}
		used, pods := map[string]float64{}, 0
		for _, other := range s.pods {
			if other.node == n.Name && (other.phase == "Pending" || other.phase == "Running") {
				pods++
				for k, v := range usage(object{"kind": "Pod", "spec": other.spec.Spec}) {
					used[k] += v
				}
			}
		}
		wants := usage(object{"kind": "Pod", "spec": p.spec.Spec})
		switch {
		case s.lost[n.Name]:
			no("node(s) had untolerated taint(s)")
		case s.cordoned[n.Name]:
			no("node(s) were unschedulable")
		case !fits:
			no("node(s) didn't match Pod's node affinity/selector")
		case n.Pods > 0 && pods >= n.Pods:
			no("Too many pods")
		case used["requests.cpu"]+wants["requests.cpu"] > amount(n.CPU):
			no("Insufficient cpu")
		case used["requests.memory"]+wants["requests.memory"] > amount(n.Memory):
			no("Insufficient memory")
		default:
			return n.Name, ""
		}
	}
	var said []string
	for text, n := range counts {
		said = append(said, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(said)
	return "", fmt.Sprintf("0/%d nodes are available: %s. preemption: 0/%d nodes are available: %d Preemption is not helpful for scheduling.", total, strings.Join(said, ", "), total, total)
}

// live is the pod's life on its node.
func (p *podRun) live() {
	s := p.s
	s.mu.Lock()
	n := 2 + len(s.store)%250
	p.ip, p.started = "10.244.0."+strconv.Itoa(n), s.now()
	if s.cfg.HostNetwork {
		p.ip = "127.0.0.1"
	}
	for _, c := range append(slices.Clone(p.inits), p.mains...) {
		c.state = object{"waiting": object{"reason": "PodInitializing"}}
		if len(p.inits) == 0 {
			c.state = object{"waiting": object{"reason": "ContainerCreating"}}
		}
	}
	for _, c := range []string{"Initialized", "ContainersReady", "Ready"} {
		p.condition(c, "False", "ContainersNotReady", "containers with unready status: ["+p.names()+"]")
	}
	if len(p.inits) == 0 {
		p.condition("Initialized", "True", "", "")
	}
	p.sync()
	s.mu.Unlock()
	volumes, ok := p.volumes()
	if !ok {
		p.finish("Failed")
		return
	}
	for _, c := range p.inits {
		if !p.runOnce(c, volumes) {
			return
		}
	}
	s.mu.Lock()
	p.condition("Initialized", "True", "", "")
	s.mu.Unlock()
	ended := make(chan bool, len(p.mains))
	for _, c := range p.mains {
		s.wg.Go(func() { ended <- p.keep(c, volumes) })
	}
	good := true
	for range p.mains {
		good = <-ended && good
	}
	if good {
		p.finish("Succeeded")
	} else {
		p.finish("Failed")
	}
}

func (p *podRun) names() string {
	var all []string
	for _, c := range p.mains {
		all = append(all, c.spec.Name)
	}
	return strings.Join(all, " ")
}

// finish writes the end of a pod.
func (p *podRun) finish(phase string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.lost[p.node] {
		return
	}
	p.phase = phase
	if p.reason != "" {
		p.phase = "Failed"
	}
	why := "PodFailed"
	if p.phase == "Succeeded" {
		why = "PodCompleted"
	}
	for _, c := range []string{"ContainersReady", "Ready"} {
		p.condition(c, "False", why, "")
	}
	p.sync()
}

// runOnce runs an init container until it succeeds; false = the pod has ended.
func (p *podRun) runOnce(c *containerRun, volumes map[string]mounted) bool {
	for {
		code, ok := p.once(c, volumes)
		if ok && code == 0 {
			return true
		}
		if !ok || p.spec.Spec.RestartPolicy == "Never" {
			p.finish("Failed")
			return false
		}
		if !p.backOff(c) {
			p.finish("Failed")
			return false
		}
	}
}

// keep runs a container, again and again if it is wanted so; it tells whether it ended well.
func (p *podRun) keep(c *containerRun, volumes map[string]mounted) bool {
	for {
		code, ok := p.once(c, volumes)
		again := p.spec.Spec.RestartPolicy == "Always" || p.spec.Spec.RestartPolicy == "OnFailure" && code != 0
		if !ok || !again {
			return ok && code == 0
		}
		if !p.backOff(c) {
			return false
		}
	}
}

// backOff waits before a container is started again. The real one waits ten seconds and more.
func (p *podRun) backOff(c *containerRun) bool {
	p.s.mu.Lock()
	c.last = c.state
	c.restarts++
	c.state = object{"waiting": object{"reason": "CrashLoopBackOff", "message": fmt.Sprintf("back-off 10s restarting failed container=%s pod=%s_%s(%s)", c.spec.Name, p.key.name, p.key.ns, p.uid)}}
	p.sync()
	p.event("Warning", "BackOff", "kubelet", fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", c.spec.Name, p.key.name, p.key.ns, p.uid))
	p.s.mu.Unlock()
	return p.wait(10 * retryIn)
}

// once starts a container and waits for its end; false = it never ran, or had to end.
func (p *podRun) once(c *containerRun, volumes map[string]mounted) (code int, ok bool) {
	s := p.s
	image, ok := p.pull(c)
	if !ok {
		return 0, false
	}
	spec, err := p.boxSpec(c, image, volumes)
	if err != nil {
		p.waiting(c, "CreateContainerConfigError", err.Error())
		<-p.stopping
		return 0, false
	}
	b, err := spec.start(s.runner)
	if err != nil {
		s.mu.Lock()
		c.state = p.terminated(b, "StartError", 128, "failed to create containerd task: failed to create shim task: OCI runtime create failed: "+err.Error())
		p.sync()
		p.event("Warning", "Failed", "kubelet", "Error: failed to create containerd task: "+err.Error())
		s.mu.Unlock()
		return 128, true
	}
	s.mu.Lock()
	c.box, c.reason = b, ""
	c.state = object{"running": object{"startedAt": s.now()}}
	p.event("Normal", "Created", "kubelet", "Container created")
	p.event("Normal", "Started", "kubelet", "Container started")
	if slices.Contains(p.mains, c) {
		c.ready = true
		p.phase = "Running"
		if !slices.ContainsFunc(p.mains, func(c *containerRun) bool { return !c.ready }) {
			p.condition("ContainersReady", "True", "", "")
			p.condition("Ready", "True", "", "")
		}
	}
	p.sync()
	stopped, killed := p.stopped, p.killed
	s.mu.Unlock()
	if killed {
		b.kill()
	} else if stopped {
		b.term()
	}
	<-b.done
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ready, c.box = false, nil
	reason := "Completed"
	if b.code != 0 {
		reason = "Error"
	}
	c.state = p.terminated(b, cmp.Or(c.reason, reason), b.code, "")
	p.condition("ContainersReady", "False", "ContainersNotReady", "containers with unready status: ["+p.names()+"]")
	p.condition("Ready", "False", "ContainersNotReady", "containers with unready status: ["+p.names()+"]")
	p.sync()
	return b.code, !p.stopped
}

// terminated is the state of a container that has ended. The caller holds mu.
func (p *podRun) terminated(_ *box, reason string, code int, message string) object {
	t := object{"exitCode": code, "reason": reason, "startedAt": p.started, "finishedAt": p.s.now(), "containerID": "containerd://" + p.uid}
	if message != "" {
		t["message"] = message
	}
	return object{"terminated": t}
}

// waiting says what a container waits for.
func (p *podRun) waiting(c *containerRun, reason, message string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	c.state = object{"waiting": object{"reason": reason, "message": message}}
	p.sync()
	p.event("Warning", "Failed", "kubelet", "Error: "+message)
}

// pull waits for a container's image.
func (p *podRun) pull(c *containerRun) (Image, bool) {
	s, name := p.s, c.spec.Image
	for first := true; ; first = false {
		s.mu.Lock()
		image, ok := s.images[name]
		switch {
		case ok:
			p.event("Normal", "Pulled", "kubelet", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", name))
		case c.spec.ImagePullPolicy == "Never":
			c.state = object{"waiting": object{"reason": "ErrImageNeverPull", "message": fmt.Sprintf("Container image %q is not present with pull policy of Never", name)}}
			p.sync()
			p.event("Warning", "ErrImageNeverPull", "kubelet", fmt.Sprintf("Container image %q is not present with pull policy of Never", name))
		default:
			ref := full(name)
			why := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", ref, ref, ref)
			if first {
				c.state = object{"waiting": object{"reason": "ErrImagePull", "message": why}}
			} else {
				c.state = object{"waiting": object{"reason": "ImagePullBackOff", "message": fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", name, why)}}
			}
			p.sync()
			if first {
				p.event("Normal", "Pulling", "kubelet", fmt.Sprintf("Pulling image %q", name))
				p.event("Warning", "Failed", "kubelet", fmt.Sprintf("Failed to pull image %q: %s", name, why))
				p.event("Warning", "Failed", "kubelet", "Error: ErrImagePull")
			} else {
				p.event("Normal", "BackOff", "kubelet", fmt.Sprintf("Back-off pulling image %q", name))
				p.event("Warning", "Failed", "kubelet", "Error: ImagePullBackOff")
			}
		}
		s.mu.Unlock()
		if ok {
			return image, true
		}
		for range 20 { // the real one waits longer and longer
			if !p.wait(retryIn) {
				return Image{}, false
			}
			s.mu.Lock()
			_, ok := s.images[name]
			s.mu.Unlock()
			if ok {
				break
			}
		}
	}
}

// full is an image's name as a runtime says it.
func full(name string) string {
	host, _, ok := strings.Cut(name, "/")
	if !ok {
		name = "docker.io/library/" + name
	} else if !strings.ContainsAny(host, ".:") && host != "localhost" {
		name = "docker.io/" + name
	}
	if !strings.Contains(filepath.Base(name), ":") && !strings.Contains(name, "@") {
		name += ":latest"
	}
	return name
}

// boxSpec is how a container is made.
func (p *podRun) boxSpec(c *containerRun, image Image, volumes map[string]mounted) (boxSpec, error) {
	s, own, whole := p.s, c.spec.SecurityContext, p.spec.Spec.SecurityContext
	who := identity{uid: image.User}
	for _, one := range []struct {
		to   *int64
		from []*int64
	}{{&who.uid, []*int64{own.RunAsUser, whole.RunAsUser}}, {&who.gid, []*int64{own.RunAsGroup, whole.RunAsGroup}}} {
		if v := cmp.Or(one.from...); v != nil {
			*one.to = *v
		}
	}
	if non := cmp.Or(own.RunAsNonRoot, whole.RunAsNonRoot); non != nil && *non && who.uid == 0 {
		return boxSpec{}, fmt.Errorf("container has runAsNonRoot and image will run as root (pod: \"%s_%s(%s)\", container: %s)", p.key.name, p.key.ns, p.uid, c.spec.Name)
	}
	who.groups = slices.Clone(whole.SupplementalGroups)
	if whole.FSGroup != nil {
		who.groups = append(who.groups, *whole.FSGroup)
	}
	who.noPrivileges = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	who.noRights = own.Capabilities != nil && slices.Contains(own.Capabilities.Drop, "ALL")
	b := boxSpec{dir: filepath.Join(p.dir(), c.spec.Name), who: who, hostname: cmp.Or(p.spec.Spec.Hostname, p.key.name), cwd: cmp.Or(c.spec.WorkingDir, "/"),
		readOnlyRoot: own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem, hostNetwork: s.cfg.HostNetwork}
	b.hostname = b.hostname[:min(len(b.hostname), 63)]
	b.argv = append(slices.Clone(c.spec.Command), c.spec.Args...)
	if len(c.spec.Command) == 0 {
		b.argv = append(slices.Clone(image.Entrypoint), c.spec.Args...)
	}
	if len(b.argv) == 0 {
		return b, errors.New("no command specified")
	}
	for to, from := range image.Files {
		b.mounts = append(b.mounts, mounted{from, to, true})
	}
	for _, m := range c.spec.VolumeMounts {
		v := volumes[m.Name]
		v.to, v.readOnly = m.MountPath, v.readOnly || m.ReadOnly
		if m.SubPath != "" {
			v.from = filepath.Join(v.from, m.SubPath)
			if err := os.MkdirAll(v.from, 0o777); err != nil {
				return b, err
			}
			_ = os.Chmod(v.from, 0o777)
		}
		b.mounts = append(b.mounts, v)
	}
	home := "/"
	switch who.uid {
	case 0:
		home = "/root"
	case 1000:
		home = "/home"
	}
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": b.hostname, "HOME": home,
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_PORT": "tcp://10.96.0.1:443"}
	for k, v := range image.Env {
		env[k] = v
	}
	for _, e := range c.spec.Env {
		v, err := p.envValue(e)
		if err != nil {
			return b, err
		}
		env[e.Name] = v
	}
	for k, v := range env {
		b.env = append(b.env, k+"="+v)
	}
	slices.Sort(b.env)
	return b, nil
}

// envValue is what a variable of a container is.
func (p *podRun) envValue(e envVar) (string, error) {
	from := e.ValueFrom
	if from == nil {
		return e.Value, nil
	}
	switch {
	case from.FieldRef != nil:
		switch from.FieldRef.FieldPath {
		case "metadata.name":
			return p.key.name, nil
		case "metadata.namespace":
			return p.key.ns, nil
		case "metadata.uid":
			return p.uid, nil
		case "status.podIP":
			return p.ip, nil
		case "spec.nodeName":
			return p.node, nil
		}
	case from.SecretKeyRef != nil:
		data, err := p.secretData(from.SecretKeyRef.Name, false)
		if err != nil {
			return "", err
		}
		v, ok := data[from.SecretKeyRef.Key]
		if !ok {
			return "", fmt.Errorf("couldn't find key %s in Secret %s/%s", from.SecretKeyRef.Key, p.key.ns, from.SecretKeyRef.Name)
		}
		return string(v), nil
	}
	return "", errors.New("this stand-in does not know where the variable " + e.Name + " comes from")
}

// secretData is what a secret, or the map of a configuration, holds.
func (p *podRun) secretData(name string, config bool) (map[string][]byte, error) {
	plural, kind := "secrets", "secret"
	if config {
		plural, kind = "configmaps", "configmap"
	}
	p.s.mu.Lock()
	o := p.s.store[key{plural, p.key.ns, name}]
	p.s.mu.Unlock()
	if o == nil {
		return nil, fmt.Errorf("%s %q not found", kind, name)
	}
	if !config {
		return as[secret](o.obj).Data, nil
	}
	out := map[string][]byte{}
	for k, v := range as[configMap](o.obj).Data {
		out[k] = []byte(v)
	}
	return out, nil
}

// volumes makes the pod's volumes; false = it is to end before they are there.
func (p *podRun) volumes() (map[string]mounted, bool) {
	out := map[string]mounted{}
	for _, v := range p.spec.Spec.Volumes {
		for {
			m, err := p.volume(v)
			if err == nil {
				out[v.Name] = m
				break
			}
			p.s.mu.Lock()
			p.event("Warning", "FailedMount", "kubelet", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", v.Name, err))
			p.s.mu.Unlock()
			if !p.wait(retryIn) {
				return nil, false
			}
		}
	}
	return out, true
}

func (p *podRun) volume(v volume) (mounted, error) {
	dir := filepath.Join(p.dir(), "volumes", v.Name)
	switch {
	case v.EmptyDir != nil:
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return mounted{}, err
		}
		return mounted{from: dir}, p.own(dir, 0o777)
	case v.PersistentVolumeClaim != nil:
		m := mounted{from: p.s.claimDir(p.key.ns, v.PersistentVolumeClaim.ClaimName), readOnly: v.PersistentVolumeClaim.ReadOnly}
		if p.s.onHost(p.key.ns, v.PersistentVolumeClaim.ClaimName) {
			return m, nil
		}
		return m, p.own(m.from, 0o777)
	case v.Secret != nil, v.ConfigMap != nil:
		ref, name := v.Secret, ""
		if ref != nil {
			name = ref.SecretName
		} else {
			ref, name = v.ConfigMap, v.ConfigMap.Name
		}
		data, err := p.secretData(name, v.Secret == nil)
		if err != nil && (ref.Optional == nil || !*ref.Optional) {
			return mounted{}, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return mounted{}, err
		}
		mode := os.FileMode(0o644)
		if ref.DefaultMode != nil {
			mode = os.FileMode(*ref.DefaultMode) & 0o777
		}
		names := map[string]string{}
		for _, i := range ref.Items {
			names[i.Key] = i.Path
		}
		for k, b := range data {
			to, ok := names[k]
			if !ok && len(names) > 0 {
				continue
			}
			path := filepath.Join(dir, cmp.Or(to, k))
			if err := errors.Join(os.WriteFile(path, b, mode), os.Chmod(path, mode), p.own(path, mode)); err != nil {
				return mounted{}, err
			}
		}
		return mounted{from: dir, readOnly: true}, nil
	}
	return mounted{}, errors.New("this stand-in does not have volumes of this type")
}

// own gives a volume to the pod's group.
func (p *podRun) own(path string, mode os.FileMode) error {
	g := p.spec.Spec.SecurityContext.FSGroup
	if g == nil {
		return os.Chmod(path, mode)
	}
	if err := os.Chown(path, -1, int(*g)); err != nil {
		return err
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		mode |= os.ModeSetgid
	} else {
		mode |= 0o040
	}
	return os.Chmod(path, mode)
}

// end has the pod end, after a time for doing so by itself.
func (p *podRun) end(grace int64) {
	s := p.s
	s.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stopping)
	}
	p.killed = p.killed || grace <= 0
	var boxes []*box
	for _, c := range append(slices.Clone(p.inits), p.mains...) {
		if c.box != nil {
			boxes = append(boxes, c.box)
		}
	}
	s.mu.Unlock()
	for _, b := range boxes {
		if grace <= 0 {
			b.kill()
			continue
		}
		b.term()
	}
	if grace <= 0 {
		return
	}
	s.wg.Go(func() {
		select {
		case <-p.done:
		case <-s.stop:
		case <-time.After(time.Duration(grace) * time.Second):
			p.end(0)
		}
	})
}

// deletePod begins, or does, what deletes a pod. The caller holds mu.
func (s *Server) deletePod(k key, grace *int64) object {
	o := s.store[k].obj
	p := s.pods[k]
	n := int64(30)
	if g := as[pod](o).Spec.TerminationGracePeriodSeconds; g != nil {
		n = *g
	}
	if grace != nil {
		n = *grace
	}
	running := p != nil && p.uid == metaOf(o)["uid"] && p.node != ""
	if p != nil && p.phase != "Pending" && p.phase != "Running" {
		running = false
	}
	if n == 0 || !running {
		gone := s.remove(k)
		switch {
		case p == nil:
		case p.over:
			p.clear()
		default:
			s.wg.Go(func() { p.end(0) })
		}
		s.finishClaims(k.ns)
		return gone
	}
	o = s.change(k, func(o object) {
		m := metaOf(o)
		m["deletionTimestamp"] = time.Now().Add(s.cfg.Skew + time.Duration(n)*time.Second).UTC().Format(time.RFC3339)
		m["deletionGracePeriodSeconds"] = n
	})
	if s.lost[p.node] {
		return o // nobody there hears it
	}
	for _, c := range p.mains {
		p.event("Normal", "Killing", "kubelet", "Stopping container "+c.spec.Name)
	}
	s.wg.Go(func() { p.end(n) })
	return o
}

// condition sets one of the pod's; it tells whether that is news. The caller holds mu.
func (p *podRun) condition(kind, status, reason, message string) bool {
	c := object{"type": kind, "status": status, "lastProbeTime": nil, "lastTransitionTime": p.s.now()}
	if reason != "" {
		c["reason"] = reason
	}
	if message != "" {
		c["message"] = message
	}
	i := slices.IndexFunc(p.conds, func(o any) bool { return o.(object)["type"] == kind })
	if i < 0 {
		p.conds = append(p.conds, c)
		return true
	}
	old := p.conds[i].(object)
	if old["status"] == status && old["reason"] == c["reason"] && old["message"] == c["message"] {
		return false
	}
	p.conds[i] = c
	return true
}

// sync writes the pod's status as it now is. The caller holds mu.
func (p *podRun) sync() {
	o := p.stored()
	if o == nil || p.s.lost[p.node] {
		return
	}
	qos := sub(clone(o), "status")["qosClass"]
	p.s.change(p.key, func(o object) {
		st := object{"phase": p.phase, "conditions": p.conds, "qosClass": qos}
		if p.started != "" {
			st["startTime"], st["hostIP"], st["podIP"], st["podIPs"] = p.started, "192.0.2.10", p.ip, []any{object{"ip": p.ip}}
		}
		if p.reason != "" {
			st["reason"], st["message"] = p.reason, p.message
		}
		for name, all := range map[string][]*containerRun{"containerStatuses": p.mains, "initContainerStatuses": p.inits} {
			var list []any
			for _, c := range all {
				if c.state == nil {
					continue
				}
				one := object{"name": c.spec.Name, "image": c.spec.Image, "imageID": "", "ready": c.ready, "started": c.ready, "restartCount": c.restarts, "state": c.state, "lastState": object{}}
				if c.last != nil {
					one["lastState"] = c.last
				}
				list = append(list, one)
			}
			if list != nil {
				st[name] = list
			}
		}
		o["status"] = st
	})
}
