module sapwood/doors/go

go 1.23
