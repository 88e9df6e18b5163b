module sapwood/doors/go/examples/opens

go 1.23.0

require (
	github.com/cilium/ebpf v0.19.0
	sapwood/doors/go v0.0.0
)

require golang.org/x/sys v0.31.0 // indirect

replace sapwood/doors/go => ../..
