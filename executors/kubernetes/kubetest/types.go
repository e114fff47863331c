package kubetest

import "encoding/json"

// What requests may say. A field that the real API has and no executor needs is any; one that is not here is refused.
type (
	meta struct {
		Name                       string            `json:"name"`
		GenerateName               string            `json:"generateName"`
		Namespace                  string            `json:"namespace"`
		UID                        string            `json:"uid"`
		ResourceVersion            string            `json:"resourceVersion"`
		Labels                     map[string]string `json:"labels"`
		Annotations                map[string]string `json:"annotations"`
		Finalizers                 []string          `json:"finalizers"`
		OwnerReferences            []any             `json:"ownerReferences"`
		CreationTimestamp          any               `json:"creationTimestamp"`
		DeletionTimestamp          any               `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds any               `json:"deletionGracePeriodSeconds"`
		Generation                 any               `json:"generation"`
		ManagedFields              any               `json:"managedFields"`
	}
	head struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Metadata   meta   `json:"metadata"`
	}

	pod struct {
		head
		Spec   podSpec `json:"spec"`
		Status any     `json:"status"`
	}
	podSpec struct {
		Containers                    []container       `json:"containers"`
		InitContainers                []container       `json:"initContainers"`
		Volumes                       []volume          `json:"volumes"`
		RestartPolicy                 string            `json:"restartPolicy"`
		TerminationGracePeriodSeconds *int64            `json:"terminationGracePeriodSeconds"`
		ActiveDeadlineSeconds         *int64            `json:"activeDeadlineSeconds"`
		NodeSelector                  map[string]string `json:"nodeSelector"`
		NodeName                      string            `json:"nodeName"`
		ServiceAccountName            string            `json:"serviceAccountName"`
		ServiceAccount                string            `json:"serviceAccount"`
		AutomountServiceAccountToken  *bool             `json:"automountServiceAccountToken"`
		EnableServiceLinks            *bool             `json:"enableServiceLinks"`
		RuntimeClassName              *string           `json:"runtimeClassName"`
		PriorityClassName             string            `json:"priorityClassName"`
		ImagePullSecrets              []localRef        `json:"imagePullSecrets"`
		HostNetwork                   bool              `json:"hostNetwork"`
		HostPID                       bool              `json:"hostPID"`
		HostIPC                       bool              `json:"hostIPC"`
		HostUsers                     *bool             `json:"hostUsers"`
		ShareProcessNamespace         *bool             `json:"shareProcessNamespace"`
		SecurityContext               podSecurity       `json:"securityContext"`
		Tolerations                   []toleration      `json:"tolerations"`
		DNSPolicy                     string            `json:"dnsPolicy"`
		DNSConfig                     any               `json:"dnsConfig"`
		Hostname                      string            `json:"hostname"`
		Subdomain                     string            `json:"subdomain"`
		HostAliases                   any               `json:"hostAliases"`
		SchedulerName                 string            `json:"schedulerName"`
		Affinity                      any               `json:"affinity"`
		TopologySpreadConstraints     any               `json:"topologySpreadConstraints"`
		PreemptionPolicy              any               `json:"preemptionPolicy"`
		Priority                      any               `json:"priority"`
		Overhead                      any               `json:"overhead"`
		OS                            any               `json:"os"`
		SetHostnameAsFQDN             any               `json:"setHostnameAsFQDN"`
		ReadinessGates                any               `json:"readinessGates"`
		SchedulingGates               any               `json:"schedulingGates"`
		Resources                     any               `json:"resources"`
		ResourceClaims                any               `json:"resourceClaims"`
	}
	localRef struct {
		Name string `json:"name"`
	}
	toleration struct {
		Key               string `json:"key"`
		Operator          string `json:"operator"`
		Value             string `json:"value"`
		Effect            string `json:"effect"`
		TolerationSeconds *int64 `json:"tolerationSeconds"`
	}
	podSecurity struct {
		security
		FSGroup                  *int64  `json:"fsGroup"`
		FSGroupChangePolicy      string  `json:"fsGroupChangePolicy"`
		SupplementalGroups       []int64 `json:"supplementalGroups"`
		SupplementalGroupsPolicy any     `json:"supplementalGroupsPolicy"`
		Sysctls                  []any   `json:"sysctls"`
	}
	security struct {
		RunAsUser      *int64   `json:"runAsUser"`
		RunAsGroup     *int64   `json:"runAsGroup"`
		RunAsNonRoot   *bool    `json:"runAsNonRoot"`
		SeccompProfile *seccomp `json:"seccompProfile"`
		SELinuxOptions any      `json:"seLinuxOptions"`
		AppArmor       any      `json:"appArmorProfile"`
		Windows        any      `json:"windowsOptions"`
	}
	seccomp struct {
		Type             string  `json:"type"`
		LocalhostProfile *string `json:"localhostProfile"`
	}
	containerSecurity struct {
		security
		AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation"`
		Privileged               *bool         `json:"privileged"`
		ReadOnlyRootFilesystem   *bool         `json:"readOnlyRootFilesystem"`
		ProcMount                any           `json:"procMount"`
		Capabilities             *capabilities `json:"capabilities"`
	}
	capabilities struct {
		Add  []string `json:"add"`
		Drop []string `json:"drop"`
	}
	container struct {
		Name                     string            `json:"name"`
		Image                    string            `json:"image"`
		ImagePullPolicy          string            `json:"imagePullPolicy"`
		Command                  []string          `json:"command"`
		Args                     []string          `json:"args"`
		WorkingDir               string            `json:"workingDir"`
		Env                      []envVar          `json:"env"`
		EnvFrom                  []any             `json:"envFrom"`
		Ports                    []containerPort   `json:"ports"`
		Resources                requirements      `json:"resources"`
		VolumeMounts             []volumeMount     `json:"volumeMounts"`
		VolumeDevices            []any             `json:"volumeDevices"`
		SecurityContext          containerSecurity `json:"securityContext"`
		Stdin                    bool              `json:"stdin"`
		StdinOnce                bool              `json:"stdinOnce"`
		TTY                      bool              `json:"tty"`
		TerminationMessagePath   string            `json:"terminationMessagePath"`
		TerminationMessagePolicy string            `json:"terminationMessagePolicy"`
		RestartPolicy            string            `json:"restartPolicy"`
		Lifecycle                any               `json:"lifecycle"`
		LivenessProbe            any               `json:"livenessProbe"`
		ReadinessProbe           any               `json:"readinessProbe"`
		StartupProbe             any               `json:"startupProbe"`
	}
	containerPort struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
		HostPort      int    `json:"hostPort"`
		HostIP        string `json:"hostIP"`
		Protocol      string `json:"protocol"`
	}
	envVar struct {
		Name      string     `json:"name"`
		Value     string     `json:"value"`
		ValueFrom *envSource `json:"valueFrom"`
	}
	envSource struct {
		FieldRef *struct {
			APIVersion string `json:"apiVersion"`
			FieldPath  string `json:"fieldPath"`
		} `json:"fieldRef"`
		SecretKeyRef     *keyRef `json:"secretKeyRef"`
		ConfigMapKeyRef  *keyRef `json:"configMapKeyRef"`
		ResourceFieldRef any     `json:"resourceFieldRef"`
	}
	keyRef struct {
		Name     string `json:"name"`
		Key      string `json:"key"`
		Optional *bool  `json:"optional"`
	}
	requirements struct {
		Limits   map[string]any `json:"limits"`
		Requests map[string]any `json:"requests"`
		Claims   any            `json:"claims"`
	}
	volumeMount struct {
		Name              string `json:"name"`
		MountPath         string `json:"mountPath"`
		SubPath           string `json:"subPath"`
		SubPathExpr       string `json:"subPathExpr"`
		ReadOnly          bool   `json:"readOnly"`
		RecursiveReadOnly any    `json:"recursiveReadOnly"`
		MountPropagation  any    `json:"mountPropagation"`
	}
	volume struct {
		Name                  string          `json:"name"`
		EmptyDir              *emptyDir       `json:"emptyDir"`
		PersistentVolumeClaim *claimVolume    `json:"persistentVolumeClaim"`
		Secret                *secretVolume   `json:"secret"`
		ConfigMap             *secretVolume   `json:"configMap"`
		HostPath              json.RawMessage `json:"hostPath"`
		Projected             json.RawMessage `json:"projected"`
		Ephemeral             json.RawMessage `json:"ephemeral"`
		Image                 json.RawMessage `json:"image"`
		CSI                   json.RawMessage `json:"csi"`
		NFS                   json.RawMessage `json:"nfs"`
		DownwardAPI           json.RawMessage `json:"downwardAPI"`
	}
	emptyDir struct {
		Medium    string `json:"medium"`
		SizeLimit any    `json:"sizeLimit"`
	}
	claimVolume struct {
		ClaimName string `json:"claimName"`
		ReadOnly  bool   `json:"readOnly"`
	}
	secretVolume struct {
		SecretName  string `json:"secretName"`
		Name        string `json:"name"`
		DefaultMode *int64 `json:"defaultMode"`
		Optional    *bool  `json:"optional"`
		Items       []struct {
			Key  string `json:"key"`
			Path string `json:"path"`
			Mode *int64 `json:"mode"`
		} `json:"items"`
	}

	claim struct {
		head
		Spec struct {
			AccessModes               []string     `json:"accessModes"`
			StorageClassName          *string      `json:"storageClassName"`
			VolumeMode                string       `json:"volumeMode"`
			VolumeName                string       `json:"volumeName"`
			Resources                 requirements `json:"resources"`
			Selector                  any          `json:"selector"`
			DataSource                any          `json:"dataSource"`
			DataSourceRef             any          `json:"dataSourceRef"`
			VolumeAttributesClassName any          `json:"volumeAttributesClassName"`
		} `json:"spec"`
		Status any `json:"status"`
	}
	secret struct {
		head
		Data       map[string][]byte `json:"data"`
		StringData map[string]string `json:"stringData"`
		Type       string            `json:"type"`
		Immutable  *bool             `json:"immutable"`
	}
	configMap struct {
		head
		Data       map[string]string `json:"data"`
		BinaryData map[string][]byte `json:"binaryData"`
		Immutable  *bool             `json:"immutable"`
	}
	networkPolicy struct {
		head
		Spec struct {
			PodSelector labelSelector `json:"podSelector"`
			PolicyTypes []string      `json:"policyTypes"`
			Ingress     []struct {
				From  []policyPeer `json:"from"`
				Ports []policyPort `json:"ports"`
			} `json:"ingress"`
			Egress []struct {
				To    []policyPeer `json:"to"`
				Ports []policyPort `json:"ports"`
			} `json:"egress"`
		} `json:"spec"`
	}
	policyPeer struct {
		PodSelector       *labelSelector `json:"podSelector"`
		NamespaceSelector *labelSelector `json:"namespaceSelector"`
		IPBlock           *struct {
			CIDR   string   `json:"cidr"`
			Except []string `json:"except"`
		} `json:"ipBlock"`
	}
	policyPort struct {
		Protocol string `json:"protocol"`
		Port     any    `json:"port"`
		EndPort  *int   `json:"endPort"`
	}
	labelSelector struct {
		MatchLabels      map[string]string `json:"matchLabels"`
		MatchExpressions []struct {
			Key      string   `json:"key"`
			Operator string   `json:"operator"`
			Values   []string `json:"values"`
		} `json:"matchExpressions"`
	}
	plain struct { // what only this package makes
		head
		Spec   any `json:"spec"`
		Status any `json:"status"`
	}
	accessReview struct {
		head
		Spec struct {
			ResourceAttributes *struct {
				Namespace   string `json:"namespace"`
				Verb        string `json:"verb"`
				Group       string `json:"group"`
				Version     string `json:"version"`
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
				Name        string `json:"name"`
			} `json:"resourceAttributes"`
			NonResourceAttributes any `json:"nonResourceAttributes"`
		} `json:"spec"`
		Status any `json:"status"`
	}
	deleteOptions struct {
		Kind               string `json:"kind"`
		APIVersion         string `json:"apiVersion"`
		GracePeriodSeconds *int64 `json:"gracePeriodSeconds"`
		PropagationPolicy  string `json:"propagationPolicy"`
		DryRun             any    `json:"dryRun"`
		OrphanDependents   any    `json:"orphanDependents"`
		Preconditions      *struct {
			UID             *string `json:"uid"`
			ResourceVersion *string `json:"resourceVersion"`
		} `json:"preconditions"`
	}
	eviction struct {
		head
		DeleteOptions *deleteOptions `json:"deleteOptions"`
	}
)

// strictTypes are what each kind that callers make is decoded as.
var strictTypes = map[string]func() any{
	"Pod": func() any { return new(pod) }, "PersistentVolumeClaim": func() any { return new(claim) }, "Secret": func() any { return new(secret) },
	"ConfigMap": func() any { return new(configMap) }, "NetworkPolicy": func() any { return new(networkPolicy) },
	"Namespace": func() any { return new(plain) },
}
