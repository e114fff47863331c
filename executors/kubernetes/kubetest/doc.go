// Package kubetest is a strict stand-in for the API server of a Kubernetes cluster, its scheduler and its kubelet, over real HTTPS. It refuses
// what the real ones refuse (unknown fields, bad names and quantities, what the restricted standard of pod security forbids, what is over a
// quota), says so in the same words, writes the events the real ones write, and breaks on demand: refusals, lost answers, cut streams,
// evictions, kills for want of memory, nodes that are drained, an API server that is started again.
//
// Each container is a tree of processes of this machine in namespaces of its own, whose first one is process 1, made by bubblewrap as root; it
// sees /usr of this machine, read-only, and what its image and its volumes have. Images are entries of a table and are never pulled.
//
// What is known of the real ones was read in their source and seen at a real node (testing/testkubernetes), against which conformance_test.go
// compares answers. Not there: protobuf and CBOR, apply with owners of fields, probes, several containers of a pod at once, services, limits
// of processor and memory.
package kubetest
