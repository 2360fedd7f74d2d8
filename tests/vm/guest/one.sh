# Runs one scenario: sh /guest/one.sh NAME
. /guest/lib.sh
. /guest/net.sh
. "/scenarios/$1.sh"
scenario
