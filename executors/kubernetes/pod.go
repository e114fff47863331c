package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/parawork/parawork/guest/call"
)

// Labels and annotations of everything we make.
const (
	labelInstance  = "parawork.dev/instance"
	labelSandbox   = "parawork.dev/sandbox" // the id, where it can be a label
	labelWorkspace = "parawork.dev/workspace"
	labelTeam      = "parawork.dev/team"
	labelManaged   = "app.kubernetes.io/managed-by"
	noteID         = "parawork.dev/sandbox-id"
	noteAttempt    = "parawork.dev/attempt"
	policyName     = "parawork-sandboxes"
	containerName  = "workspace"
	managedBy      = "parawork"
)

// Paths in every pod.
const (
	runDir      = "/run/parawork"           // ends with the pod
	goFile      = runDir + "/go"            // what the first process becomes
	guestFile   = runDir + "/bin/guest"     // the guest's program
	imageGuest  = "/opt/parawork/guest-"    // where an image may have it, with its hash behind it
	bootFile    = runDir + "/boot-file"     // the guest reads its token from it, and removes it
	socketFile  = runDir + "/guest.sock"    //
	egressFile  = runDir + "/egress"        // the way out
	callFile    = runDir + "/call"          // where the guest calls this server
	stateDir    = "/var/lib/parawork"       // lives on with the volume
	guestDir    = stateDir + "/guest"       //
	endedFile   = stateDir + "/ended"       // exists when a host told the guest to end
	insideHome  = "/home/user"              //
	insideWork  = "/work"                   // worktrees are below it
	defaultRoot = insideWork + "/workspace" //
)

// waiter is the pod's first process: it waits for what it becomes. A shell that is the first process gets no signal it does not trap.
// The end of its container carries what it writes to /dev/termination-log.
const waiter = `trap 'exit 0' TERM INT
for v in $(env | sed -n 's/^\(KUBERNETES_[A-Z0-9_]*\)=.*/\1/p'); do unset "$v"; done
for d in ` + insideWork + ` ` + insideHome + ` ` + stateDir + `; do
  [ -w $d ] && continue
  echo "user $(id -u) may not write to $d: the storage class gives its volumes to root and not to the pod's group (fsGroup); choose another" >/dev/termination-log
  exit 73
done
until [ -e ` + goFile + ` ]; do sleep 0.1 2>/dev/null || sleep 1; done
mkdir -p ` + guestDir + `
set --
while IFS= read -r a; do set -- "$@" "$a"; done < ` + goFile + `
cd /
exec "$@"
`

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)

func (r record) labels(instance, id string) map[string]string {
	out := map[string]string{labelManaged: managedBy, labelInstance: instance}
	for name, value := range map[string]string{labelSandbox: id, labelWorkspace: r.Workspace, labelTeam: r.Team} {
		if labelValue.MatchString(value) {
			out[name] = value
		}
	}
	return out
}

func ptr[T any](v T) *T { return &v }

// podOf is the pod of a sandbox.
func (c *cluster) podOf(instance, id string, r record) pod {
	set := c.set
	selector, _ := parseSelector(set.NodeSelector) // checked by Normal
	tolerations, _ := parseTolerations(set.Tolerations)
	disk := func(sub, path string) volumeMount { return volumeMount{Name: "disk", MountPath: path, SubPath: sub} }
	p := pod{APIVersion: "v1", Kind: "Pod",
		Metadata: meta{Name: r.Pod, Namespace: set.Namespace, Labels: r.labels(instance, id), Annotations: map[string]string{
			noteID: id, noteAttempt: r.Attempt,
			// A workspace is not moved to another node for the sake of order: what runs in it would end.
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}},
		Spec: podSpec{RestartPolicy: "Never", ServiceAccountName: set.ServiceAccount, AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
			RuntimeClassName: set.RuntimeClass, PriorityClassName: set.PriorityClass, NodeSelector: selector, Tolerations: tolerations, GracePeriod: ptr(int64(graceSeconds)),
			SecurityContext: &podSecurity{RunAsNonRoot: ptr(set.UserID != 0), RunAsUser: &set.UserID, RunAsGroup: &set.UserID, FSGroup: &set.UserID,
				FSGroupChange: "OnRootMismatch", SeccompProfile: &profile{"RuntimeDefault"}},
			Containers: []container{{Name: containerName, Image: r.Image, ImagePullPolicy: set.ImagePullPolicy, Command: []string{"/bin/sh", "-c", waiter}, WorkingDir: "/",
				Env:             []envVar{{"HOME", insideHome}, {"USER", "user"}, {"LOGNAME", "user"}, {"LANG", "C.UTF-8"}},
				Resources:       resourcesOf(set, r),
				SecurityContext: &containerSecurity{AllowPrivilegeEscalation: ptr(false), Capabilities: &capabilities{Drop: []string{"ALL"}}},
				VolumeMounts:    []volumeMount{disk("work", insideWork), disk("home", insideHome), disk("state", stateDir), {Name: "run", MountPath: runDir}}}},
			Volumes: []volume{{Name: "run", EmptyDir: &emptyDir{SizeLimit: "256Mi"}}, {Name: "disk", EmptyDir: &emptyDir{SizeLimit: strconv.FormatInt(set.DiskGB, 10) + "Gi"}}},
		}}
	if r.Claim != "" {
		p.Spec.Volumes[1] = volume{Name: "disk", Claim: &claimName{r.Claim}}
	}
	if set.ImagePullSecret != "" {
		p.Spec.ImagePullSecrets = []named{{set.ImagePullSecret}}
	}
	if set.UserNamespace {
		p.Spec.HostUsers = ptr(false)
	}
	return p
}

// resourcesOf is what a pod may use, and what the scheduler reserves for it.
func resourcesOf(set Settings, r record) resources {
	milli, mib := int64(r.CPUs)*1000, r.MemoryMB
	return resources{
		Limits:   map[string]string{"cpu": strconv.FormatInt(milli, 10) + "m", "memory": strconv.FormatInt(mib, 10) + "Mi"},
		Requests: map[string]string{"cpu": strconv.FormatInt(max(milli*set.RequestCPU/100, 10), 10) + "m", "memory": strconv.FormatInt(max(mib*set.RequestMemory/100, 64), 10) + "Mi"}}
}

// claimOf is the volume of a sandbox.
func (c *cluster) claimOf(instance, id string, r record) claim {
	out := claim{APIVersion: "v1", Kind: "PersistentVolumeClaim",
		Metadata: meta{Name: r.Claim, Namespace: c.set.Namespace, Labels: r.labels(instance, id), Annotations: map[string]string{noteID: id}},
		Spec:     claimSpec{AccessModes: []string{"ReadWriteOnce"}, Resources: resources{Requests: map[string]string{"storage": strconv.FormatInt(c.set.DiskGB, 10) + "Gi"}}}}
	if c.set.StorageClass != "" {
		out.Spec.StorageClassName = &c.set.StorageClass
	}
	return out
}

// denyAll is the policy that lets our pods reach nothing, and nobody reach them. What they may reach comes through an exec, which it does not
// concern.
func (c *cluster) denyAll() policy {
	p := policy{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy",
		Metadata: meta{Name: policyName, Namespace: c.set.Namespace, Labels: map[string]string{labelManaged: managedBy}},
		Spec:     policySpec{PolicyTypes: []string{"Ingress", "Egress"}}}
	p.Spec.PodSelector.MatchLabels = map[string]string{labelManaged: managedBy}
	return p
}

// policyFor is how long it holds that the policy is there.
const policyFor = 5 * time.Minute

// secure sees that the policy is there, and makes it where it is not, with the one that lets pods of the instance call this server; ""
// = none makes pods now.
func (c *cluster) secure(ctx context.Context, instance string, now func() time.Time) error {
	if !c.set.NetworkPolicy {
		return nil
	}
	to := "to " + c.set.CallAddress
	c.mu.Lock()
	fresh := !c.policyAt.IsZero() && now().Sub(c.policyAt) < policyFor && (instance == "" || c.policyOf == to)
	c.mu.Unlock()
	if fresh {
		return nil
	}
	var have policy
	err := c.do(ctx, ask{method: http.MethodGet, path: c.policies(policyName), out: &have})
	if isStatus(err, http.StatusNotFound) {
		have = c.denyAll()
		err = c.do(ctx, ask{method: http.MethodPost, path: c.policies(""), in: have})
		if isStatus(err, http.StatusConflict) { // another server's
			err = c.do(ctx, ask{method: http.MethodGet, path: c.policies(policyName), out: &have})
		}
	}
	if err != nil {
		return fmt.Errorf("seeing that pods reach nothing: %w", err)
	}
	if labels := have.Spec.PodSelector.MatchLabels; len(have.Spec.Egress) > 0 || len(have.Spec.Ingress) > 0 || len(have.Spec.PolicyTypes) != 2 ||
		len(labels) > 1 || len(labels) == 1 && labels[labelManaged] != managedBy {
		return &problem{reason: Refused, said: "the NetworkPolicy " + policyName + " of the namespace is not Parawork's, which forbids pods everything: remove it and it is made again"}
	}
	if instance != "" {
		var h call.Host
		if c.set.CallAddress != "" {
			if h, err = c.host(ctx); err != nil {
				return err
			}
		}
		if err := c.callPolicy(ctx, instance, h); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policyAt = now(); instance != "" {
		c.policyOf = to
	}
	return nil
}

// graceSeconds is how long what runs in a pod has to end.
const graceSeconds = 5

// goneWithin is how long a deleted pod is waited for.
const goneWithin = 45 * time.Second

// remove ends a pod of ours and waits until it is no more: its volume can be mounted elsewhere then. A pod of another making is not ours to end.
func (c *cluster) remove(ctx context.Context, instance, name string) error {
	p, err := c.pod(ctx, name)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.Metadata.Labels[labelInstance] != instance {
		return &problem{reason: Refused, said: "the pod " + name + " belongs to another Parawork"}
	}
	if err := c.delete(ctx, c.pods(name), p.Metadata.UID, graceSeconds); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, goneWithin, &problem{reason: Timeout,
		said: fmt.Sprintf("the pod %s does not end on node %s. If that node is lost, remove it from the cluster, or run kubectl delete pod --force", name, p.Spec.NodeName)})
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		now, err := c.pod(ctx, name)
		if isStatus(err, http.StatusNotFound) || err == nil && now.Metadata.UID != p.Metadata.UID {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// delete has the cluster end an object: only the one with that uid. One that is gone is no error.
func (c *cluster) delete(ctx context.Context, path, uid string, grace int64) error {
	type preconditions struct {
		UID string `json:"uid"`
	}
	in := struct {
		Kind          string        `json:"kind"`
		APIVersion    string        `json:"apiVersion"`
		Grace         *int64        `json:"gracePeriodSeconds,omitempty"`
		Preconditions preconditions `json:"preconditions"`
	}{Kind: "DeleteOptions", APIVersion: "v1", Preconditions: preconditions{uid}}
	if grace > 0 {
		in.Grace = &grace
	}
	err := c.do(ctx, ask{method: http.MethodDelete, path: path, in: in})
	if isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusConflict) { // another with that name is not ours to end
		return nil
	}
	return err
}

// removeClaim ends a volume of ours.
func (c *cluster) removeClaim(ctx context.Context, instance, name string) error {
	var have claim
	err := c.do(ctx, ask{method: http.MethodGet, path: c.claims(name), out: &have})
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if have.Metadata.Labels[labelInstance] != instance {
		return errors.New("the volume claim " + name + " belongs to another Parawork")
	}
	return c.delete(ctx, c.claims(name), have.Metadata.UID, 0)
}

func (c *cluster) pod(ctx context.Context, name string) (pod, error) {
	var p pod
	err := c.do(ctx, ask{method: http.MethodGet, path: c.pods(name), out: &p})
	return p, err
}

// ours is the labels of what this instance made.
func ours(instance string) string { return labelInstance + "=" + instance }
