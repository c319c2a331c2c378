# bash completion for kildsvc. `kildsvc completion bash` prints it.
_kildsvc() {
    local cur=${COMP_WORDS[COMP_CWORD]} kind value
    [[ $cur == = ]] && cur=
    COMPREPLY=()
    while IFS=$'\t' read -r kind value _; do
        case $kind in
        dir) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        file) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        command) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        *) COMPREPLY+=("$value") ;;
        esac
    done < <("${1/#\~/$HOME}" __complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null)
}
complete -F _kildsvc kildsvc
