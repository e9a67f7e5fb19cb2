. ./price.sh
expect() {
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1: $2 instead of $3"
    exit 1
  fi
}
expect 'two pieces' "$(total 2 150)" 300
expect 'ten pieces, with the discount' "$(total 10 150)" 1350
expect 'a price' "$(shown 1350)" 13.50
