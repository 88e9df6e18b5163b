module sapwood/doors/go/bench

go 1.24.0

require (
	github.com/gaissmai/bart v0.30.0
	github.com/hashicorp/go-immutable-radix/v2 v2.1.0
	sapwood/doors/go v0.0.0
)

require github.com/hashicorp/golang-lru/v2 v2.0.0 // indirect

replace sapwood/doors/go => ../
