package kubernetes

import (
	"encoding/json"
	"time"
)

// The few kinds of objects that are used, with the fields that are.

type meta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"`
}

type list[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

type pod struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Metadata   meta      `json:"metadata"`
	Spec       podSpec   `json:"spec"`
	Status     podStatus `json:"status,omitzero"`
}

type podSpec struct {
	NodeName                     string            `json:"nodeName,omitempty"`
	RestartPolicy                string            `json:"restartPolicy,omitempty"`
	ServiceAccountName           string            `json:"serviceAccountName,omitempty"`
	AutomountServiceAccountToken *bool             `json:"automountServiceAccountToken,omitempty"`
	EnableServiceLinks           *bool             `json:"enableServiceLinks,omitempty"`
	HostUsers                    *bool             `json:"hostUsers,omitempty"`
	RuntimeClassName             string            `json:"runtimeClassName,omitempty"`
	PriorityClassName            string            `json:"priorityClassName,omitempty"`
	NodeSelector                 map[string]string `json:"nodeSelector,omitempty"`
	Tolerations                  []toleration      `json:"tolerations,omitempty"`
	ImagePullSecrets             []named           `json:"imagePullSecrets,omitempty"`
	SecurityContext              *podSecurity      `json:"securityContext,omitempty"`
	GracePeriod                  *int64            `json:"terminationGracePeriodSeconds,omitempty"`
	Containers                   []container       `json:"containers"`
	Volumes                      []volume          `json:"volumes,omitempty"`
}

type named struct {
	Name string `json:"name"`
}

type toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

type podSecurity struct {
	RunAsNonRoot   *bool    `json:"runAsNonRoot,omitempty"`
	RunAsUser      *int64   `json:"runAsUser,omitempty"`
	RunAsGroup     *int64   `json:"runAsGroup,omitempty"`
	FSGroup        *int64   `json:"fsGroup,omitempty"`
	FSGroupChange  string   `json:"fsGroupChangePolicy,omitempty"`
	SeccompProfile *profile `json:"seccompProfile,omitempty"`
}

type profile struct {
	Type string `json:"type"`
}

type container struct {
	Name            string             `json:"name"`
	Image           string             `json:"image"`
	ImagePullPolicy string             `json:"imagePullPolicy,omitempty"`
	Command         []string           `json:"command,omitempty"`
	WorkingDir      string             `json:"workingDir,omitempty"`
	Env             []envVar           `json:"env,omitempty"`
	Resources       resources          `json:"resources"`
	SecurityContext *containerSecurity `json:"securityContext,omitempty"`
	VolumeMounts    []volumeMount      `json:"volumeMounts,omitempty"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

type containerSecurity struct {
	AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation,omitempty"`
	Capabilities             *capabilities `json:"capabilities,omitempty"`
}

type capabilities struct {
	Drop []string `json:"drop,omitempty"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	SubPath   string `json:"subPath,omitempty"`
}

type volume struct {
	Name     string     `json:"name"`
	EmptyDir *emptyDir  `json:"emptyDir,omitempty"`
	Claim    *claimName `json:"persistentVolumeClaim,omitempty"`
}

type emptyDir struct {
	SizeLimit string `json:"sizeLimit,omitempty"`
}

type claimName struct {
	ClaimName string `json:"claimName"`
}

type podStatus struct {
	Phase             string            `json:"phase,omitempty"`
	Reason            string            `json:"reason,omitempty"`
	Message           string            `json:"message,omitempty"`
	StartTime         *time.Time        `json:"startTime,omitempty"`
	Conditions        []condition       `json:"conditions,omitempty"`
	ContainerStatuses []containerStatus `json:"containerStatuses,omitempty"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerStatus struct {
	Name  string `json:"name"`
	State struct {
		Waiting    *waiting    `json:"waiting"`
		Running    *running    `json:"running"`
		Terminated *terminated `json:"terminated"`
	} `json:"state"`
}

type waiting struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type running struct {
	StartedAt *time.Time `json:"startedAt"`
}

type terminated struct {
	ExitCode   int        `json:"exitCode"`
	Reason     string     `json:"reason"`
	Message    string     `json:"message"`
	StartedAt  *time.Time `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt"`
}

type claim struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Metadata   meta      `json:"metadata"`
	Spec       claimSpec `json:"spec"`
	Status     struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitzero"`
}

type claimSpec struct {
	AccessModes      []string  `json:"accessModes"`
	StorageClassName *string   `json:"storageClassName,omitempty"`
	Resources        resources `json:"resources"`
}

type policy struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   meta       `json:"metadata"`
	Spec       policySpec `json:"spec"`
}

type policySpec struct {
	PodSelector struct {
		MatchLabels map[string]string `json:"matchLabels,omitempty"`
	} `json:"podSelector"`
	PolicyTypes []string          `json:"policyTypes"`
	Ingress     []json.RawMessage `json:"ingress,omitempty"`
	Egress      []egressRule      `json:"egress,omitempty"`
}

type egressRule struct {
	To    []peer       `json:"to,omitempty"`
	Ports []policyPort `json:"ports,omitempty"`
}

type peer struct {
	IPBlock *ipBlock `json:"ipBlock,omitempty"`
}

type ipBlock struct {
	CIDR string `json:"cidr"`
}

type policyPort struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

type event struct {
	Metadata  meta       `json:"metadata"`
	Type      string     `json:"type"` // Normal or Warning
	Reason    string     `json:"reason"`
	Message   string     `json:"message"`
	Last      *time.Time `json:"lastTimestamp"`
	EventTime *time.Time `json:"eventTime"`
}

// at is when an event was last seen.
func (e event) at() time.Time {
	switch {
	case e.Last != nil:
		return *e.Last
	case e.EventTime != nil:
		return *e.EventTime
	case e.Metadata.CreationTimestamp != nil:
		return *e.Metadata.CreationTimestamp
	}
	return time.Time{}
}

// status is how the API answers what it does not do.
type status struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		Name       string `json:"name"`
		Kind       string `json:"kind"`
		RetryAfter int    `json:"retryAfterSeconds"`
	} `json:"details"`
}
